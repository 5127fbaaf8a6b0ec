package gpu

import (
	"errors"
	"strings"
)

// Kinds of failure, for errors.Is.
var (
	ErrUnsupported = errors.New("unsupported")
	ErrLost        = errors.New("device lost")
	ErrOutOfMemory = errors.New("out of GPU memory")
	ErrValidation  = errors.New("invalid use of the GPU")
)

// Error is every failure of this package: what kind, at which label, what was needed and what was found.
type Error struct {
	Kind  error  // one of the Err values above
	Label string // path of the buffer, kernel or layer, e.g. layers.12.mlp.down_proj: matvec
	Need  string
	Have  string
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Label != "" {
		b.WriteString(e.Label + ": ")
	}
	if e.Kind == ErrValidation && e.Have != "" && e.Need != "" {
		return b.String() + e.Have + ", want " + e.Need
	}
	b.WriteString(e.Kind.Error())
	if e.Need != "" {
		b.WriteString(": need " + e.Need)
	}
	if e.Have != "" {
		sep := ": "
		if e.Need != "" {
			sep = ", have "
		}
		b.WriteString(sep + e.Have)
	}
	return b.String()
}

// Unwrap makes errors.Is(err, gpu.ErrLost) work.
func (e *Error) Unwrap() error { return e.Kind }
