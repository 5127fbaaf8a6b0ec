package tokenizer

import "strings"

// Stream turns ids into text as they come. What Next returns is always whole characters, and all that Next and Flush
// return, joined, is what Decode returns for the same ids. What a later id can still change is held back: an unfinished
// character, or a run of byte tokens.
//
// A Stream is for one text and one goroutine.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	stages      []stage
	out         strings.Builder
}

// NewStream starts a text. With skipSpecial special tokens are left out.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	s := &Stream{t: t, skipSpecial: skipSpecial}
	for _, start := range t.decoder {
		s.stages = append(s.stages, start())
	}
	return s
}

// Next takes one id and returns the text that is certain now, often none. Ids without a token count as no id.
func (s *Stream) Next(id int32) string {
	if !s.t.has(id) || s.skipSpecial && s.t.IsSpecial(id) {
		return ""
	}
	token := s.t.tokens[id]
	if form, ok := s.t.forms[id]; ok {
		token = form // the decoder undoes what normalization did, so it must see the normalized form
	}
	s.push(0, token)
	return s.take()
}

// Flush ends the text and returns the rest of it.
func (s *Stream) Flush() string {
	for i := range s.stages {
		s.stages[i].flush(func(token string) { s.push(i+1, token) })
	}
	return s.take()
}

func (s *Stream) push(i int, token string) {
	if i == len(s.stages) {
		s.out.WriteString(token)
		return
	}
	s.stages[i].push(token, func(token string) { s.push(i+1, token) })
}

func (s *Stream) take() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

// Decode returns the text of ids; ids without a token count as none. With skipSpecial special tokens are left out.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.NewStream(skipSpecial)
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(s.Next(id))
	}
	out.WriteString(s.Flush())
	return out.String()
}
