package shaders

import (
	_ "embed"
	"fmt"
	"math"

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
	sampleBins   = 1024
)

// Words of a row's head in the scratch of Sample, for kernels that need a row's probabilities after it.
const (
	SampledDistance = iota // last distance kept
	SampledID              // last id kept at that distance
	SampledLogSum          // log of the sum of exp(-distance/temperature) over the kept tokens, f32
	SampledChoice
)

func sampleRowWords(vocab int) int {
	c := vocabChunks(vocab)
	return sampleHead + sampleResult*c + 3*vocab + 3*sampleBins*c
}

// SampleScratch is the number of words of the scratch of Sample.
func SampleScratch(rows, vocab int) int { return rows * sampleRowWords(vocab) }

// Sample records the choice of a token for each row of logits; package sample defines it. Row j is row first+j of the
// step: it stands at position state.position + first + j, predicts the token at the next one, and its penalty window
// ends at its own. The settings may change between submissions of one list. Scratch keeps each row's distances,
// threshold and log-sum for kernels that come after.
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
	head, results, distances, scores, bins []uint32
}

func sampleRowOf(c *gpu.Call, scratch []uint32, row int) sampleRow {
	vocab, chunks, words := c.U(0), c.U(1), c.U(2)
	rest := scratch[row*words : (row+1)*words]
	cut := func(n int) []uint32 {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	s := sampleRow{head: cut(sampleHead), results: cut(sampleResult * chunks), distances: cut(vocab), scores: cut(vocab)}
	cut(vocab) // the list
	s.bins = rest
	return s
}

// ids calls f with the ids of a chunk.
func (s sampleRow) ids(chunk int, f func(id int)) {
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
			s.ids(chunk, func(id int) {
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
			value, best, sum := uint32(0), 0, 0.0
			bins := make([]uint64, sampleBins)
			counts := make([]uint32, sampleBins)
			s.ids(chunk, func(id int) {
				q := sample.Distance(largest, s.distances[id])
				s.distances[id] = q
				if q == sample.Excluded {
					return
				}
				lower := sample.Tempered(q, settings.InverseTemp)
				score := uint32(sample.Noise(seed, position, uint32(id))-int32(lower)) ^ 1<<31
				if search {
					s.scores[id] = score
					bins[q>>20] += uint64(sample.Weight(q))
					counts[q>>20]++
				} else if q <= settings.MinP {
					sum += math.Exp(-float64(lower) / sample.Nat)
					if score > value {
						value, best = score, id
					}
				}
			})
			r := s.results[chunk*sampleResult:]
			r[2], r[3], r[4] = value, uint32(best), math.Float32bits(float32(sum))
			if search {
				out := s.bins[chunk*3*sampleBins:]
				for i, w := range bins {
					out[i], out[sampleBins+i], out[2*sampleBins+i] = counts[i], uint32(w), uint32(w>>32)
				}
			}
		}
	}
}

func refSamplePick(c *gpu.Call) {
	choice, scratch, settings := c.U32(0), c.U32(1), sample.ParseSettings(c.U32(2))
	for row := range c.Grid.X {
		s := sampleRowOf(c, scratch, row)
		threshold := sample.Threshold{Distance: settings.MinP, ID: sample.AllIDs}
		value, best, sum := uint32(0), uint32(0), 0.0
		better := func(v, id uint32) {
			if v > value || v == value && id < best {
				value, best = v, id
			}
		}
		if settings.Searches(c.U(0)) {
			threshold = sample.Select(s.distances, settings)
			for id, q := range s.distances {
				if threshold.Keeps(q, uint32(id)) {
					sum += math.Exp(-float64(sample.Tempered(q, settings.InverseTemp)) / sample.Nat)
					better(s.scores[id], uint32(id))
				}
			}
		} else {
			for chunk := range c.U(1) {
				r := s.results[chunk*sampleResult:]
				if settings.Greedy {
					better(r[0], r[1])
					continue
				}
				better(r[2], r[3])
				sum += float64(math.Float32frombits(r[4]))
			}
		}
		logSum := 0.0
		if sum > 0 {
			logSum = math.Log(sum)
		}
		choice[row] = best
		s.head[SampledDistance], s.head[SampledID] = threshold.Distance, threshold.ID
		s.head[SampledLogSum], s.head[SampledChoice] = math.Float32bits(float32(logSum)), best
	}
}
