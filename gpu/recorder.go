package gpu

import (
	"context"
	"fmt"
	"strings"
)

// Recorder collects dispatches and copies into a CommandList. It enforces WebGPU's rules on every driver, the software
// one included, so that a list which passes here is valid in a browser. The first mistake sticks with its label path
// and comes back from Finish; recording after it does nothing.
type Recorder struct {
	device *Device
	list   *CommandList
	scopes []string
	err    error
	params map[string]uint32 // deduplicated parameter blocks -> index
}

// NewRecorder starts a list.
func (d *Device) NewRecorder(label string) *Recorder {
	return &Recorder{device: d, list: &CommandList{Label: label, device: d}, params: map[string]uint32{}}
}

// Device returns what the list is recorded for; kernels choose their variant by its Features and Limits.
func (r *Recorder) Device() *Device { return r.device }

// Push enters a label scope (layers.12, self_attn, ...); Pop leaves it.
func (r *Recorder) Push(label string) { r.scopes = append(r.scopes, label) }

// Pop leaves the innermost scope.
func (r *Recorder) Pop() { r.scopes = r.scopes[:len(r.scopes)-1] }

// Errorf records a failure at the current label path, unless there is one already.
func (r *Recorder) Errorf(need, have string) {
	if r.err == nil {
		r.err = &Error{Kind: ErrValidation, Label: r.path(""), Need: need, Have: have}
	}
}

// Err returns the sticky error.
func (r *Recorder) Err() error { return r.err }

func (r *Recorder) path(name string) string {
	path := strings.Join(r.scopes, ".")
	if path == "" {
		path = r.list.Label
	}
	if name == "" {
		return path
	}
	return path + ": " + name
}

// Check reports whether t has the given element types and shape; a dimension of -1 fits any size. On a mismatch it
// leaves the sticky error "name is [..] dtype, want ...".
func (r *Recorder) Check(kernel, name string, t Tensor, dtypes []DType, shape ...int) bool {
	if r.err != nil {
		return false
	}
	ok := t.Buffer != nil && len(t.Shape) == len(shape)
	for i := 0; ok && i < len(shape); i++ {
		ok = shape[i] == -1 || shape[i] == t.Shape[i]
	}
	typed := false
	for _, dt := range dtypes {
		typed = typed || dt == t.DType
	}
	if ok && typed {
		return true
	}
	r.err = &Error{Kind: ErrValidation, Label: r.path(kernel), Need: fmt.Sprintf("%s %v", shapeString(shape), dtypes), Have: fmt.Sprintf("%s is %v", name, t)}
	return false
}

func shapeString(shape []int) string {
	parts := make([]string, len(shape))
	for i, s := range shape {
		parts[i] = fmt.Sprint(s)
		if s == -1 {
			parts[i] = "any"
		}
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// maxParams is the largest Params struct, in words: one uniform binding offset step on every device.
const maxParams = 64

// Dispatch records one run of a kernel. Tensors go to bindings 1, 2, ... in the kernel's order.
func (r *Recorder) Dispatch(k *Kernel, v Variant, grid Grid, params []uint32, tensors ...Tensor) {
	if r.err != nil {
		return
	}
	if have, need := r.refuse(k, grid, params, tensors); need != "" {
		r.err = &Error{Kind: ErrValidation, Label: r.path(k.Name), Need: need, Have: have}
		return
	}
	r.list.ops = append(r.list.ops, op{
		kind: opDispatch, kernel: k, variant: v, grid: grid, params: params, paramBlock: r.paramBlock(params),
		tensors: tensors, label: k.Name, path: r.path(k.Name),
	})
}

func (r *Recorder) paramBlock(params []uint32) int {
	key := fmt.Sprint(params)
	if i, ok := r.params[key]; ok {
		return int(i)
	}
	i := len(r.list.paramBlocks)
	r.params[key] = uint32(i)
	r.list.paramBlocks = append(r.list.paramBlocks, params)
	return i
}

// refuse says what WebGPU would refuse about a dispatch, as (have, need); need is empty when all is well.
func (r *Recorder) refuse(k *Kernel, grid Grid, params []uint32, tensors []Tensor) (have, need string) {
	lim := r.device.Limits
	if len(tensors) != len(k.Bindings) {
		return fmt.Sprintf("%d tensors", len(tensors)), fmt.Sprintf("%d", len(k.Bindings))
	}
	if len(params) == 0 || len(params) > maxParams {
		return fmt.Sprintf("%d parameters", len(params)), fmt.Sprintf("1 to %d", maxParams)
	}
	for _, g := range []int{grid.X, grid.Y, grid.Z} {
		if g < 1 || g > lim.MaxWorkgroups {
			return fmt.Sprintf("grid %v", grid), fmt.Sprintf("1 to %d workgroups a dimension", lim.MaxWorkgroups)
		}
	}
	storage := 0
	for i, t := range tensors {
		b := k.Bindings[i]
		size := roundUp(t.Bytes(), 4)
		limit := lim.MaxBindingSize
		if b.Access == Uniform {
			limit = lim.MaxUniformBindingSize
		} else {
			storage++
		}
		if have, need := r.device.usable(t.Buffer); need != "" {
			return b.Name + ": " + have, need
		}
		switch {
		case t.Offset%lim.BindingOffsetAlignment != 0:
			return fmt.Sprintf("%s at byte offset %d", b.Name, t.Offset), fmt.Sprintf("a multiple of %d", lim.BindingOffsetAlignment)
		case t.Offset < 0 || t.Offset+size > t.Buffer.Size:
			return fmt.Sprintf("%s spans bytes %d to %d", b.Name, t.Offset, t.Offset+size), fmt.Sprintf("a range inside %d", t.Buffer.Size)
		case size > limit:
			return fmt.Sprintf("%s of %d bytes", b.Name, size), fmt.Sprintf("at most %d bytes a binding", limit)
		}
		for j, u := range tensors[:i] {
			if u.Buffer == t.Buffer && (b.Access == ReadWrite || k.Bindings[j].Access == ReadWrite) {
				return fmt.Sprintf("%s and %s share buffer %s", k.Bindings[j].Name, b.Name, t.Buffer.Label), "a written tensor to own its buffer"
			}
		}
	}
	if storage > lim.MaxStorageBuffers {
		return fmt.Sprintf("%d storage buffers", storage), fmt.Sprintf("at most %d", lim.MaxStorageBuffers)
	}
	return "", ""
}

// Copy records a copy of src's bytes over dst's. The tensors lie in different buffers and have equal sizes, multiples
// of 4 at multiples of 4.
func (r *Recorder) Copy(dst, src Tensor) {
	if r.err != nil {
		return
	}
	have, need := r.device.usable(dst.Buffer)
	if need == "" {
		have, need = r.device.usable(src.Buffer)
	}
	switch {
	case need != "":
	case dst.Buffer == src.Buffer:
		have, need = "both in buffer "+dst.Buffer.Label, "two buffers"
	case dst.Bytes() != src.Bytes():
		have, need = fmt.Sprintf("%d and %d bytes", dst.Bytes(), src.Bytes()), "equal sizes"
	case dst.Bytes()%4 != 0 || dst.Offset%4 != 0 || src.Offset%4 != 0:
		have, need = fmt.Sprintf("%d bytes from %d to %d", src.Bytes(), src.Offset, dst.Offset), "multiples of 4"
	case !dst.inside() || !src.inside():
		have, need = "a range past its buffer's end", "ranges inside the buffers"
	}
	if need != "" {
		r.err = &Error{Kind: ErrValidation, Label: r.path("copy"), Need: need, Have: have}
		return
	}
	r.list.ops = append(r.list.ops, op{kind: opCopy, tensors: []Tensor{dst, src}, label: "copy", path: r.path("copy")})
}

// Cut ends the current submission: what is recorded so far starts on the GPU while the rest is still being encoded.
func (r *Recorder) Cut() {
	if r.err == nil {
		r.list.ops = append(r.list.ops, op{kind: opCut})
	}
}

// Readback records that t's bytes come back from Pending.Wait after each submission of the list. One per list.
func (r *Recorder) Readback(t Tensor) {
	if r.err != nil {
		return
	}
	have, need := r.device.usable(t.Buffer)
	if need == "" && (r.list.readback.Buffer != nil || t.Bytes()%4 != 0 || t.Offset%4 != 0 || !t.inside()) {
		have, need = t.String(), "one range of whole words a list"
	}
	if need != "" {
		r.err = &Error{Kind: ErrValidation, Label: r.path("readback"), Need: need, Have: have}
		return
	}
	r.list.readback = t
}

// Finish builds the list: pipelines are compiled (in parallel, where the browser does), and every failure of the
// recording or of a compilation comes back here.
func (r *Recorder) Finish(ctx context.Context) (*CommandList, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := r.device.Err(); err != nil {
		return nil, err
	}
	r.list.collectBuffers()
	built, err := r.device.driver.build(ctx, r.list)
	if err != nil {
		return nil, err
	}
	r.list.built = built
	return r.list, nil
}
