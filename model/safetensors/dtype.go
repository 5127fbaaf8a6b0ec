package safetensors

import "strings"

// DType is an element type, spelled as in the file.
type DType string

// The element types of the format that fill whole bytes. Its packed types (F4, F6_E2M3, F6_E3M2) are refused as unknown.
const (
	BOOL    DType = "BOOL"
	U8      DType = "U8"
	I8      DType = "I8"
	F8_E5M2 DType = "F8_E5M2"
	F8_E4M3 DType = "F8_E4M3"
	F8_E8M0 DType = "F8_E8M0"
	I16     DType = "I16"
	U16     DType = "U16"
	F16     DType = "F16"
	BF16    DType = "BF16"
	I32     DType = "I32"
	U32     DType = "U32"
	F32     DType = "F32"
	C64     DType = "C64"
	F64     DType = "F64"
	I64     DType = "I64"
	U64     DType = "U64"
)

// Bytes returns the size of one element, 0 for a type this package does not know.
func (d DType) Bytes() int {
	switch d {
	case BOOL, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0:
		return 1
	case I16, U16, F16, BF16:
		return 2
	case I32, U32, F32:
		return 4
	case C64, F64, I64, U64:
		return 8
	}
	return 0
}

func knownDTypes() string {
	all := []DType{BOOL, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0, I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = string(d)
	}
	return strings.Join(names, " ")
}
