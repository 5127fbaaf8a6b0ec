// Package tokenizer turns text into token ids and back as the Hugging Face tokenizers library does for a BPE
// tokenizer.json, byte-level (GPT-2, Qwen, Llama 3, gpt-oss) or SentencePiece-style with byte fallback (Llama 2,
// MiniCPM). The ids are the same, id for id, or Load refuses the file:
//
//	added tokens     with special, normalized, lstrip, rstrip and single_word
//	normalizers      NFC, NFD, NFKC, NFKD, Prepend, Replace (by a string), Sequence
//	pre-tokenizers   Split, Digits, ByteLevel (last), Metaspace, Sequence
//	models           BPE with byte_fallback, fuse_unk, ignore_merges
//	post-processors  TemplateProcessing (one text), ByteLevel, Sequence
//	decoders         ByteLevel, Replace (by a string), ByteFallback, Fuse, Strip, Metaspace, Sequence
//
// The reference is version 0.23.2. Two things differ on purpose: Decode with skipSpecial leaves out every special token,
// where the reference keeps those that the normalizer changes; and added tokens keep the ids that the file gives them,
// where the reference numbers those outside the vocabulary anew.
//
// Anything else is an error with its name. Regular expressions are written for Oniguruma and run on regexp2; constructs
// that the two read differently are refused as well. There is no time limit on matching (regexp2's timer does not fire
// in WebAssembly under JavaScript): the patterns in use need time linear in the text, a hostile one may not.
package tokenizer

import (
	"fmt"
	"strings"
	"sync"
)

// Tokenizer is a loaded tokenizer.json. It may be used from several goroutines.
type Tokenizer struct {
	model     *bpe
	tokens    []string // by id; added tokens included
	ids       map[string]int32
	added     []AddedToken
	special   map[int32]bool
	forms     map[int32]string // what Decode writes for added tokens that normalization changes
	plain     *matcher         // added tokens looked for in the text as it is
	normal    *matcher         // and in the normalized text
	normalize []normalizer
	words     words
	template  template
	decoder   decoder

	mu     sync.Mutex // guards what follows
	merger merger
	cache  map[string][]int32
}

// Text repeats its words, and a word costs a heap of merges: short words are kept until there are cacheWords of them.
const (
	cacheWords     = 1 << 14
	cacheWordBytes = 64
)

// Options say how Encode treats a text.
type Options struct {
	AddSpecialTokens bool   // put around the text what the file's post-processor asks for (a begin-of-text token, say)
	Literal          []Span // where added tokens must not match, in any order
	Inside           bool   // the text follows an added token that is not in it: nothing is done that is for the beginning of an input
}

// Span is the byte range [Start, End) of a text.
type Span struct{ Start, End int }

func build(f *file) (*Tokenizer, error) {
	if v, ok := f.parts["version"]; ok && string(v) != `"1.0"` {
		return nil, fmt.Errorf("version is %s, want \"1.0\"", clip(v))
	}
	for _, key := range []string{"truncation", "padding"} {
		if v, ok := f.parts[key]; ok {
			return nil, fmt.Errorf("%s %s is not supported, want null", key, clip(v))
		}
	}
	model, err := newBPE(f)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		model: model, ids: model.vocab, special: map[int32]bool{}, forms: map[int32]string{}, plain: newMatcher(), normal: newMatcher(),
		cache: map[string][]int32{},
	}
	if t.normalize, err = newNormalizer("normalizer", f.parts["normalizer"]); err != nil {
		return nil, err
	}
	if t.words, err = newWords(f.parts["pre_tokenizer"]); err != nil {
		return nil, err
	}
	if t.decoder, err = newDecoder(f.parts["decoder"]); err != nil {
		return nil, err
	}
	if err := t.addTokens(f); err != nil {
		return nil, err
	}
	t.template, err = newTemplate(f.parts["post_processor"], t)
	return t, err
}

// addTokens fills the tables by id and the matchers.
func (t *Tokenizer) addTokens(f *file) error {
	added, err := readAdded(f.parts["added_tokens"])
	if err != nil {
		return err
	}
	top := int32(-1)
	for _, id := range f.ids {
		top = max(top, id)
	}
	for _, a := range added {
		top = max(top, a.ID)
	}
	// Real files leave few ids unused; a tiny file must not make a large table.
	if count := len(f.ids) + len(added); int(top) > 4*count+1<<16 {
		return fmt.Errorf("the highest id is %d for %d tokens: ids are too sparse", top, count)
	}
	t.tokens = make([]string, top+1)
	used := make([]bool, top+1)
	for token, id := range t.model.vocab {
		if used[id] {
			return fmt.Errorf("model.vocab: the tokens %s and %s have the same id %d", quote(t.tokens[id]), quote(token), id)
		}
		t.tokens[id], used[id] = token, true
	}
	extra := map[string]int32{}
	for i, a := range added {
		if id, ok := t.model.vocab[a.Content]; ok && id != a.ID {
			return fmt.Errorf("added_tokens[%d]: %s has the id %d, but %d in the vocabulary", i, quote(a.Content), a.ID, id)
		} else if _, twice := extra[a.Content]; twice {
			return fmt.Errorf("added_tokens[%d]: %s appears twice", i, quote(a.Content))
		} else if !ok && used[a.ID] {
			return fmt.Errorf("added_tokens[%d]: %s has the id %d of %s", i, quote(a.Content), a.ID, quote(t.tokens[a.ID]))
		}
		extra[a.Content] = a.ID
		t.tokens[a.ID], used[a.ID] = a.Content, true
		t.special[a.ID] = a.Special
	}
	t.added = added
	return t.fillMatchers()
}

func (t *Tokenizer) fillMatchers() error {
	for _, special := range []bool{true, false} { // of two tokens with one form, special ones win
		for _, a := range t.added {
			if a.Special != special {
				continue
			}
			if !a.Normalized {
				t.plain.add(a.Content, a)
				continue
			}
			form := t.normalized(normText{s: a.Content}).s
			if form == "" {
				return fmt.Errorf("added token %s: nothing is left of it after normalization", quote(a.Content))
			}
			t.normal.add(form, a)
			if form != a.Content {
				t.forms[a.ID] = form
			}
		}
	}
	return nil
}

func (t *Tokenizer) normalized(n normText) normText {
	for _, step := range t.normalize {
		n = step(n)
	}
	return n
}

// Encode returns the ids of text. Added tokens are found anywhere but in opt.Literal: there text stays plain, even when
// it spells "<|im_end|>"; a match that overlaps a literal span in one byte is none. Bytes that are not UTF-8 are read as
// U+FFFD, one for each cut-off character, lone surrogate or stray byte. An error is a span outside the text, a pattern
// that runs out of its stack, or a character that neither the vocabulary nor its unknown token covers.
func (t *Tokenizer) Encode(text string, opt Options) ([]int32, error) {
	for _, s := range opt.Literal {
		if s.Start < 0 || s.End < s.Start || s.End > len(text) {
			return nil, fmt.Errorf("tokenizer: literal span [%d, %d) does not lie in the text of %d bytes", s.Start, s.End, len(text))
		}
	}
	text, spans := validText(text, opt.Literal)
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]int32, 0, len(text)/4+8)
	if opt.AddSpecialTokens {
		ids = append(ids, t.template.before...)
	}
	blocked := blockedBy(spans)
	for _, seg := range t.plain.split(text, blocked) {
		if seg.token {
			ids = append(ids, seg.id)
			continue
		}
		n, nBlocked := t.normalizeSegment(text, seg, blocked)
		for i, seg2 := range t.normal.split(n, nBlocked) {
			if seg2.token {
				ids = append(ids, seg2.id)
				continue
			}
			var err error
			p := piece{s: n[seg2.start:seg2.end], first: seg.start == 0 && i == 0 && !opt.Inside}
			if ids, err = t.encodePlain(ids, p); err != nil {
				return nil, fmt.Errorf("tokenizer: %w", err)
			}
		}
	}
	if opt.AddSpecialTokens {
		ids = append(ids, t.template.after...)
	}
	return ids, nil
}

// normalizeSegment returns a segment's normalized text and what is blocked in it. Where the text came from is worked
// out only when there is something to block.
func (t *Tokenizer) normalizeSegment(text string, seg segment, blocked func(start, end int) bool) (string, func(start, end int) bool) {
	s := text[seg.start:seg.end]
	if blocked == nil || len(t.normal.tokens) == 0 {
		return t.normalized(normText{s: s}).s, nil
	}
	n := t.normalized(track(s))
	return n.s, func(start, end int) bool {
		from := n.covers(start, end)
		return blocked(seg.start+from.Start, seg.start+from.End)
	}
}

// encodePlain appends the ids of text without added tokens.
func (t *Tokenizer) encodePlain(ids []int32, p piece) ([]int32, error) {
	pieces := []piece{p}
	var err error
	for _, step := range t.words.steps {
		if pieces, err = step(pieces); err != nil {
			return ids, err
		}
	}
	for _, w := range pieces {
		if known, ok := t.cache[w.s]; ok {
			ids = append(ids, known...)
			continue
		}
		start := len(ids)
		if ids, err = t.model.encode(ids, w.s, t.words.byteLevel, &t.merger); err != nil {
			return ids, err
		}
		if len(w.s) <= cacheWordBytes {
			if len(t.cache) >= cacheWords {
				clear(t.cache)
			}
			t.cache[strings.Clone(w.s)] = append([]int32(nil), ids[start:]...)
		}
	}
	return ids, nil
}

func (t *Tokenizer) has(id int32) bool {
	if id < 0 || int(id) >= len(t.tokens) {
		return false
	}
	if t.tokens[id] != "" {
		return true
	}
	empty, ok := t.ids[""] // a vocabulary may hold the empty token; other empty entries are unused ids
	return ok && empty == id
}

// VocabSize returns the highest id plus one, over vocabulary and added tokens. Ids below it may be unused.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenID returns the id of a token, given as the file spells it (byte-level tokens in the byte-level alphabet).
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	if id, ok := t.ids[token]; ok {
		return id, true
	}
	for _, a := range t.added {
		if a.Content == token {
			return a.ID, true
		}
	}
	return 0, false
}

// Token returns the token of an id as the file spells it, "" for ids without one.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.tokens[id]
}

// IsSpecial reports whether id is an added token marked special.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// AddedTokens returns the added tokens in the file's order.
func (t *Tokenizer) AddedTokens() []AddedToken { return append([]AddedToken(nil), t.added...) }
