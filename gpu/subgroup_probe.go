package gpu

import (
	"context"
	_ "embed"
	"encoding/binary"
)

//go:embed subgroup_probe.wgsl
var subgroupProbeWGSL string

const probeInvocations = 128

var subgroupProbe = &Kernel{
	Name:     "subgroup_probe",
	WGSL:     subgroupProbeWGSL,
	Bindings: []Binding{{Name: "out", Access: ReadWrite}},
}

// probeSubgroups returns the subgroup size when lanes follow local_invocation_index linearly, else 0: WebGPU does not
// promise the mapping, and a kernel that shuffles on a wrong assumption is silently wrong.
func probeSubgroups(ctx context.Context, d *Device) (int, error) {
	out, err := d.NewTensor("subgroup_probe", U32, 2, probeInvocations)
	if err != nil {
		return 0, err
	}
	defer out.Buffer.Destroy()
	r := d.NewRecorder("subgroup_probe")
	r.Dispatch(subgroupProbe, Variant{Prelude: "enable subgroups;\n"}, Grid{1, 1, 1}, Params(0), out)
	r.Readback(out)
	l, err := r.Finish(ctx)
	if err != nil {
		return 0, err
	}
	defer l.Release()
	p, err := l.Submit()
	if err != nil {
		return 0, err
	}
	data, err := p.Wait(ctx)
	if err != nil {
		return 0, err
	}
	return linearSubgroups(data), nil
}

// linearSubgroups judges a probe's result: the common subgroup size, or 0 when sizes differ or lanes are permuted.
func linearSubgroups(data []byte) int {
	word := func(i int) int { return int(binary.LittleEndian.Uint32(data[4*i:])) }
	size := word(probeInvocations)
	if size < 1 || probeInvocations%size != 0 {
		return 0
	}
	for i := range probeInvocations {
		if word(i) != i%size || word(probeInvocations+i) != size {
			return 0
		}
	}
	return size
}
