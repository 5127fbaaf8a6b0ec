package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
	"flint/model/sample"
)

var (
	//go:embed lib_random.wgsl
	libRandom string
	//go:embed lib_sample.wgsl
	libSample string
	//go:embed sample_scan.wgsl
	sampleScanWGSL string
	//go:embed sample_score.wgsl
	sampleScoreWGSL string
	//go:embed sample_pick.wgsl
	samplePickWGSL string
)

// The three passes of Sample. See lib_sample.wgsl for what they leave in scratch.
var (
	sampleScan = &gpu.Kernel{
		Name: "sample_scan",
		WGSL: sampleScanWGSL,
		Bindings: []gpu.Binding{
			{Name: "scratch", Access: gpu.ReadWrite},
			{Name: "logits", Access: gpu.Read},
			{Name: "tokens", Access: gpu.Read},
			{Name: "state", Access: gpu.Uniform},
			{Name: "settings", Access: gpu.Uniform},
		},
		Reference: refSampleScan,
	}
	sampleScore = &gpu.Kernel{
		Name: "sample_score",
		WGSL: sampleScoreWGSL,
		Bindings: []gpu.Binding{
			{Name: "scratch", Access: gpu.ReadWrite},
			{Name: "state", Access: gpu.Uniform},
			{Name: "settings", Access: gpu.Uniform},
		},
		Reference: refSampleScore,
	}
	samplePick = &gpu.Kernel{
		Name: "sample_pick",
		WGSL: samplePickWGSL,
		Bindings: []gpu.Binding{
			{Name: "choice", Access: gpu.ReadWrite},
			{Name: "scratch", Access: gpu.ReadWrite},
			{Name: "settings", Access: gpu.Uniform},
		},
		Reference: refSamplePick,
	}
)

// SamplingConfig is what a person sets. Validate it, then write Words into the settings tensor of Sample.
type SamplingConfig = sample.Config

// DefaultSampling samples from the model's own distribution.
func DefaultSampling() SamplingConfig { return sample.Default() }

// SettingsWords is the size of the settings tensor of Sample: 64 bytes, bound as a uniform.
const SettingsWords = sample.SettingsWords

// Sizes of lib_sample.wgsl.
const (
	sampleHead   = 16
	sampleResult = 8
	sampleBins   = 256
)

// Words of a row's head in the scratch of Sample, for kernels that need a row's probabilities after it.
const (
	SampledDistance = iota // last distance kept
	SampledID              // last id kept at that distance
	SampledSumHigh         // sum of exp(-distance/temperature) over the kept tokens, in 2^-31
	SampledSumLow
	SampledChoice
)

func sampleRowWords(vocab int) int {
	c := vocabChunks(vocab)
	return sampleHead + sampleResult*c + 4*vocab + 3*sampleBins*c
}

// SampleScratch is the number of words of the scratch of Sample.
func SampleScratch(rows, vocab int) int { return rows * sampleRowWords(vocab) }

// Sample records the choice of a token for each row of logits; package sample defines it. Row j is row first+j of the
// step: it stands at position state.position + first + j, predicts the token at the next one, and its penalty window
// ends at its own. The settings may change between submissions of one list. Scratch keeps each row's distances,
// threshold and sum for kernels that come after.
//
//	choice [T] u32   logits [T, V] f32   tokens [S] u32   state, settings [16] u32 uniform   scratch [SampleScratch(T, V)] f32
func Sample(r *gpu.Recorder, choice, logits, tokens, state, settings, scratch gpu.Tensor, first int) {
	t, v := logits.Dim(0), logits.Dim(1)
	if !r.Check("sample", "logits", logits, f32, -1, -1) || !checkVocab(r, "sample", v) ||
		!r.Check("sample", "choice", choice, u32, t) || !r.Check("sample", "tokens", tokens, u32, -1) ||
		!r.Check("sample", "state", state, u32, StateWords) || !r.Check("sample", "settings", settings, u32, SettingsWords) ||
		!r.Check("sample", "scratch", scratch, f32, SampleScratch(t, v)) {
		return
	}
	if first < 0 {
		r.Errorf("rows before the first one, 0 or more", fmt.Sprintf("sample: first is %d", first))
		return
	}
	prelude := gpu.Variant{Prelude: libState + libRandom + libArgmax + libSample}
	params := gpu.Params(v, vocabChunks(v), sampleRowWords(v), first)
	chunks := gpu.Grid{X: vocabChunks(v), Y: t, Z: 1}
	r.Dispatch(sampleScan, prelude, chunks, params, scratch, logits, tokens, state, settings)
	r.Dispatch(sampleScore, prelude, chunks, params, scratch, state, settings)
	r.Dispatch(samplePick, prelude, gpu.Grid{X: t, Y: 1, Z: 1}, params, choice, scratch, settings)
}

// sampleRow is one row of the scratch of Sample.
type sampleRow struct {
	head, results, distances, ids, near, scores, bins []uint32
}

func sampleRowOf(c *gpu.Call, scratch []uint32, row int) sampleRow {
	vocab, chunks, words := c.U(0), c.U(1), c.U(2)
	rest := scratch[row*words : (row+1)*words]
	cut := func(n int) []uint32 {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	return sampleRow{
		head: cut(sampleHead), results: cut(sampleResult * chunks), distances: cut(vocab),
		ids: cut(vocab), near: cut(vocab), scores: cut(vocab), bins: rest,
	}
}

// each calls f with the ids of a chunk.
func (s sampleRow) each(chunk int, f func(id int)) {
	for id := chunk * vocabChunk; id < min((chunk+1)*vocabChunk, len(s.distances)); id++ {
		f(id)
	}
}

func refSampleScan(c *gpu.Call) {
	scratch, logits, tokens, state := c.U32(0), c.F32(1), c.U32(2), c.U32(3)
	settings := sample.ParseSettings(c.U32(4))
	vocab := c.U(0)
	for row := range c.Grid.Y {
		s := sampleRowOf(c, scratch, row)
		for id, x := range logits[row*vocab : (row+1)*vocab] {
			s.distances[id] = sample.Key(x)
		}
		seen := map[uint32]bool{}
		history := tokens[:int(state[StatePosition])+c.U(3)+row+1]
		for _, id := range history[len(history)-min(len(history), int(settings.Window)):] {
			if int(id) < vocab && !seen[id] {
				seen[id] = true
				s.distances[id] = sample.Penalise(s.distances[id], settings)
			}
		}
		for chunk := range c.U(1) {
			r := s.results[chunk*sampleResult:]
			r[0], r[1] = 0, 0
			s.each(chunk, func(id int) {
				if k := s.distances[id]; k > r[0] {
					r[0], r[1] = k, uint32(id)
				}
			})
		}
	}
}

func refSampleScore(c *gpu.Call) {
	scratch, state, settings := c.U32(0), c.U32(1), sample.ParseSettings(c.U32(2))
	if settings.Greedy {
		return
	}
	seed := uint64(state[StateSeedLo]) | uint64(state[StateSeedHi])<<32
	search := settings.Searches(c.U(0))
	for row := range c.Grid.Y {
		s := sampleRowOf(c, scratch, row)
		position := state[StatePosition] + uint32(c.U(3)+row+1)
		largest := uint32(0)
		for chunk := range c.U(1) {
			largest = max(largest, s.results[chunk*sampleResult])
		}
		for chunk := range c.U(1) {
			score := func(id int) uint32 {
				lower := sample.Tempered(s.distances[id], settings.InverseTemp)
				return uint32(sample.Noise(seed, position, uint32(id))-int32(lower)) ^ 1<<31
			}
			r := s.results[chunk*sampleResult:]
			clear(r[2:6])
			sum, bins := uint64(0), make([][]int, sampleBins)
			s.each(chunk, func(id int) {
				q := sample.Distance(largest, s.distances[id])
				s.distances[id] = q
				switch {
				case q == sample.Excluded:
				case search:
					bins[q>>24] = append(bins[q>>24], id)
				case q <= settings.MinP:
					sum += uint64(sample.Weight(sample.Tempered(q, settings.InverseTemp)))
					if v := score(id); v > r[2] {
						r[2], r[3] = v, uint32(id)
					}
				}
			})
			r[4], r[5] = uint32(sum>>32), uint32(sum)
			if !search {
				continue
			}
			out, at := s.bins[chunk*3*sampleBins:], chunk*vocabChunk
			for bin, ids := range bins {
				weight := uint64(0)
				for _, id := range ids {
					s.ids[at], s.near[at], s.scores[at] = uint32(id), s.distances[id], score(id)
					weight += uint64(sample.Weight(s.distances[id]))
					at++
				}
				out[bin], out[sampleBins+bin], out[2*sampleBins+bin] = uint32(at-chunk*vocabChunk), uint32(weight), uint32(weight>>32)
			}
		}
	}
}

func refSamplePick(c *gpu.Call) {
	choice, scratch, settings := c.U32(0), c.U32(1), sample.ParseSettings(c.U32(2))
	for row := range c.Grid.X {
		s := sampleRowOf(c, scratch, row)
		threshold := sample.Threshold{Distance: settings.MinP, ID: sample.AllIDs}
		value, best, sum := uint32(0), uint32(0), uint64(0)
		better := func(v, id uint32) {
			if v > value || v == value && id < best {
				value, best = v, id
			}
		}
		search := settings.Searches(c.U(0))
		if search {
			threshold = sample.Select(s.distances, settings)
		}
		for chunk := range c.U(1) {
			r := s.results[chunk*sampleResult:]
			switch {
			case settings.Greedy:
				better(r[0], r[1])
			case search:
				start := chunk * vocabChunk
				for i := start; i < start+int(s.bins[chunk*3*sampleBins+sampleBins-1]); i++ {
					if threshold.Keeps(s.near[i], s.ids[i]) {
						better(s.scores[i], s.ids[i])
						sum += uint64(sample.Weight(sample.Tempered(s.near[i], settings.InverseTemp)))
					}
				}
			default:
				better(r[2], r[3])
				sum += uint64(r[4])<<32 | uint64(r[5])
			}
		}
		choice[row] = best
		s.head[SampledDistance], s.head[SampledID] = threshold.Distance, threshold.ID
		s.head[SampledSumHigh], s.head[SampledSumLow], s.head[SampledChoice] = uint32(sum>>32), uint32(sum), best
	}
}
