package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// absent marks a character or byte that the vocabulary has no token for.
const absent = -1

// bpe is byte pair encoding (Sennrich et al. 2016, arXiv 1508.07909) over ids.
type bpe struct {
	vocab  map[string]int32
	merges map[uint64]merge // by pair

	unkToken     string
	hasUnk       bool
	fuseUnk      bool
	byteFallback bool
	ignoreMerges bool // a word that is a token is that token, whatever the merges make of it

	byteLevel [256]int32 // the token of each byte's character in the byte-level alphabet
	fallback  [256]int32 // <0x00> to <0xFF>
}

// merge says that a pair becomes id; the lowest rank of a word goes first.
type merge struct{ rank, id int32 }

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func newBPE(f *file) (*bpe, error) {
	m := &bpe{}
	var dropout float64
	var prefix, suffix string
	for key, into := range map[string]any{
		"dropout": &dropout, "unk_token": &m.unkToken, "continuing_subword_prefix": &prefix, "end_of_word_suffix": &suffix,
		"fuse_unk": &m.fuseUnk, "byte_fallback": &m.byteFallback, "ignore_merges": &m.ignoreMerges,
	} {
		if raw, ok := f.model[key]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, fmt.Errorf("model.%s: %w", key, err)
			}
		}
	}
	_, m.hasUnk = f.model["unk_token"]
	switch {
	case dropout != 0:
		return nil, fmt.Errorf("model.dropout %v is not supported: encoding would be random", dropout)
	case prefix != "":
		return nil, fmt.Errorf("model.continuing_subword_prefix %s is not supported", quote(prefix))
	case suffix != "":
		return nil, fmt.Errorf("model.end_of_word_suffix %s is not supported", quote(suffix))
	}
	if err := m.addVocab(f); err != nil {
		return nil, err
	}
	if err := m.addMerges(f); err != nil {
		return nil, err
	}
	for b := range 256 {
		m.byteLevel[b] = m.id(string(byteRunes[b]))
		m.fallback[b] = m.id(fmt.Sprintf("<0x%02X>", b))
	}
	return m, nil
}

func (m *bpe) id(token string) int32 {
	if id, ok := m.vocab[token]; ok {
		return id
	}
	return absent
}

func (m *bpe) addVocab(f *file) error {
	text := string(f.vocab.text) // one allocation that all tokens share
	m.vocab = make(map[string]int32, len(f.ids))
	start := uint32(0)
	for i, id := range f.ids {
		token := text[start:f.vocab.ends[i]]
		start = f.vocab.ends[i]
		m.vocab[token] = id
		if len(m.vocab) != i+1 {
			return fmt.Errorf("model.vocab: the token %s appears twice", quote(token))
		}
	}
	return nil
}

func (m *bpe) addMerges(f *file) error {
	n := f.pairs.len() / 2
	m.merges = make(map[uint64]merge, n)
	var both []byte
	for i := range n {
		left, right := f.pairs.at(2*i), f.pairs.at(2*i+1)
		both = append(append(both[:0], left...), right...)
		a, okA := m.vocab[string(left)]
		b, okB := m.vocab[string(right)]
		id, ok := m.vocab[string(both)]
		if !okA || !okB || !ok {
			missing := both
			if !okA {
				missing = left
			} else if !okB {
				missing = right
			}
			return fmt.Errorf("model.merges[%d] is %q + %q, but the token %q is not in the vocabulary", i, clip(left), clip(right), clip(missing))
		}
		m.merges[pair(a, b)] = merge{rank: int32(i), id: id} // of two equal pairs the later counts, as in the reference
	}
	return nil
}

// symbol is a piece of a word while it is merged; next and prev are positions, -1 at the ends.
type symbol struct{ id, prev, next int32 }

// candidate is a possible merge of the symbols at pos and its next into id.
type candidate struct{ rank, pos, id int32 }

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.pos < d.pos
}

// merger holds the working memory of encode between words.
type merger struct {
	symbols []symbol
	heap    []candidate
	word    strings.Builder
}

// encode appends the ids of one word to out. With byteLevel, word is raw bytes that are read through the byte-level
// alphabet. A character without a token becomes, in this order, its bytes' tokens, the unknown token, or, when the
// model has neither, nothing: so does the reference, and vocabularies that were trained on text alone rely on it (SmolLM
// lacks 21 bytes).
func (m *bpe) encode(out []int32, word string, byteLevel bool, w *merger) ([]int32, error) {
	if m.ignoreMerges {
		whole := word
		if byteLevel {
			w.word.Reset()
			for i := range len(word) {
				w.word.WriteRune(byteRunes[word[i]])
			}
			whole = w.word.String()
		}
		if id, ok := m.vocab[whole]; ok {
			return append(out, id), nil
		}
	}
	w.symbols = w.symbols[:0]
	var err error
	if byteLevel {
		err = m.splitBytes(word, w)
	} else {
		err = m.splitRunes(word, w)
	}
	if err != nil {
		return out, err
	}
	m.mergeAll(w)
	if len(w.symbols) > 0 { // symbols[0] is never the right part of a merge
		for i := int32(0); i >= 0; i = w.symbols[i].next {
			out = append(out, w.symbols[i].id)
		}
	}
	return out, nil
}

func (w *merger) add(id int32) {
	n := int32(len(w.symbols))
	if n > 0 {
		w.symbols[n-1].next = n
	}
	w.symbols = append(w.symbols, symbol{id: id, prev: n - 1, next: -1})
}

func (m *bpe) splitBytes(word string, w *merger) error {
	pending := false
	for i := range len(word) {
		b := word[i]
		id := m.byteLevel[b]
		if id == absent {
			// The fallback is by the bytes of the alphabet's character, as the model never saw the raw byte.
			if err := m.unknown(string(byteRunes[b]), w, &pending); err != nil {
				return err
			}
			continue
		}
		m.flushUnknown(w, &pending)
		w.add(id)
	}
	m.flushUnknown(w, &pending)
	return nil
}

func (m *bpe) splitRunes(word string, w *merger) error {
	pending := false
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		i += n
		id, ok := m.vocab[char]
		if !ok {
			if err := m.unknown(char, w, &pending); err != nil {
				return err
			}
			continue
		}
		m.flushUnknown(w, &pending)
		w.add(id)
	}
	m.flushUnknown(w, &pending)
	return nil
}

// unknown adds what stands for a character without a token. The unknown token itself stays pending until the next
// known character, past any bytes in between: the reference's order.
func (m *bpe) unknown(char string, w *merger, pending *bool) error {
	if m.byteFallback {
		all := true
		for i := range len(char) {
			all = all && m.fallback[char[i]] != absent
		}
		if all {
			for i := range len(char) {
				w.add(m.fallback[char[i]])
			}
			return nil
		}
	}
	if !m.hasUnk {
		return nil
	}
	if _, ok := m.vocab[m.unkToken]; !ok {
		return fmt.Errorf("the text has the character %q, which the vocabulary lacks, and the unknown token %s is not in it either", char, quote(m.unkToken))
	}
	if !m.fuseUnk {
		m.flushUnknown(w, pending)
	}
	*pending = true
	return nil
}

func (m *bpe) flushUnknown(w *merger, pending *bool) {
	if *pending {
		w.add(m.vocab[m.unkToken])
		*pending = false
	}
}

// mergeAll merges pairs by rank, then position, until none is left.
func (m *bpe) mergeAll(w *merger) {
	w.heap = w.heap[:0]
	for i := 1; i < len(w.symbols); i++ {
		m.propose(w, int32(i-1), int32(i))
	}
	for len(w.heap) > 0 {
		top := w.pop()
		left := &w.symbols[top.pos]
		if left.id == absent || left.next < 0 {
			continue
		}
		// An outdated proposal is told by its result, not its rank: the reference does so, and its order is the contract.
		right := w.symbols[left.next]
		if now, ok := m.merges[pair(left.id, right.id)]; !ok || now.id != top.id {
			continue
		}
		w.symbols[left.next].id = absent
		left.id, left.next = top.id, right.next
		if left.next >= 0 {
			w.symbols[left.next].prev = top.pos
			m.propose(w, top.pos, left.next)
		}
		if left.prev >= 0 {
			m.propose(w, left.prev, top.pos)
		}
	}
}

func (m *bpe) propose(w *merger, left, right int32) {
	if mg, ok := m.merges[pair(w.symbols[left].id, w.symbols[right].id)]; ok {
		w.push(candidate{rank: mg.rank, pos: left, id: mg.id})
	}
}

func (w *merger) push(c candidate) {
	h := append(w.heap, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
	w.heap = h
}

func (w *merger) pop() candidate {
	h := w.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			if len(h) > 0 {
				h[i] = last
			}
			break
		}
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(last) {
			h[i] = last
			break
		}
		h[i] = h[down]
		i = down
	}
	w.heap = h
	return top
}
