package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// stage is one step from tokens to text. push takes the next token and hands on what is certain now; flush hands on
// the rest at the end. A stage lives for one text.
type stage interface {
	push(token string, next func(string))
	flush(next func(string))
}

// decoder builds the stages for one text. The last stage gets text in pieces, all others whole tokens.
type decoder []func() stage

func newDecoder(raw json.RawMessage) (decoder, error) {
	if raw == nil {
		// Without a decoder the reference joins tokens by spaces.
		return decoder{func() stage { return &joinStage{} }}, nil
	}
	c, err := newComponent("decoder", raw)
	if err != nil {
		return nil, err
	}
	b := decoderBuilder{}
	if err := c.decoder(&b); err != nil {
		return nil, err
	}
	return b.stages, nil
}

type decoderBuilder struct {
	stages decoder
	fused  bool // from here on there is one text and no tokens
}

func (c component) decoder(b *decoderBuilder) error {
	if b.fused && c.kind != "Strip" && c.kind != "Fuse" && c.kind != "Sequence" {
		return fmt.Errorf("%s: %s after Fuse or ByteLevel is not supported", c.where, c.kind)
	}
	var o struct {
		Type    *string  `json:"type"`
		Pattern *pattern `json:"pattern"`
		Content *string  `json:"content"`
		Start   *int     `json:"start"`
		Stop    *int     `json:"stop"`
	}
	switch c.kind {
	case "Sequence":
		parts, err := c.sequence("decoders")
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := p.decoder(b); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		var o struct {
			Type           *string `json:"type"`
			AddPrefixSpace *bool   `json:"add_prefix_space"` // these three are the pre-tokenizer's; decoding ignores them
			TrimOffsets    *bool   `json:"trim_offsets"`
			UseRegex       *bool   `json:"use_regex"`
		}
		b.fused = true
		b.stages = append(b.stages, func() stage { return &byteLevelStage{} })
		return c.options(&o, "use_regex")
	case "ByteFallback":
		b.stages = append(b.stages, func() stage { return &byteFallbackStage{} })
		return c.options(&o, "pattern", "content", "start", "stop")
	case "Fuse":
		b.fused = true
		return c.options(&o, "pattern", "content", "start", "stop")
	case "Replace":
		if err := c.options(&o, "start", "stop"); err != nil {
			return err
		}
		old, err := o.Pattern.literal(c)
		if err != nil {
			return err
		}
		content := *o.Content
		b.stages = append(b.stages, func() stage { return replaceStage{old, content} })
		return nil
	case "Strip":
		if err := c.options(&o, "pattern"); err != nil {
			return err
		}
		r, n := utf8.DecodeRuneInString(*o.Content)
		if n == 0 || n != len(*o.Content) || *o.Start < 0 || *o.Stop < 0 || *o.Start > maxToken || *o.Stop > maxToken {
			return fmt.Errorf("%s: Strip: want a content of one character and counts from 0 to %d, found %s, %d and %d",
				c.where, maxToken, quote(*o.Content), *o.Start, *o.Stop)
		}
		strip := stripStage{char: r, lead: *o.Start, stop: *o.Stop, each: !b.fused}
		b.stages = append(b.stages, func() stage { s := strip; return &s })
		return nil
	case "Metaspace":
		m, err := c.metaspace()
		if err != nil {
			return err
		}
		b.stages = append(b.stages, func() stage { return &metaspaceStage{m: m} })
		return nil
	}
	return c.unsupported("ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, Sequence")
}

// joinStage puts a space between tokens.
type joinStage struct{ some bool }

func (s *joinStage) push(token string, next func(string)) {
	if s.some {
		next(" ")
	}
	s.some = true
	next(token)
}

func (s *joinStage) flush(func(string)) {}

// replaceStage replaces inside each token.
type replaceStage struct{ old, content string }

func (s replaceStage) push(token string, next func(string)) {
	next(strings.ReplaceAll(token, s.old, s.content))
}

func (s replaceStage) flush(func(string)) {}

// metaspaceStage turns the replacement back into a space, or into nothing in the first token unless none is ever put in
// front.
type metaspaceStage struct {
	m    metaspace
	some bool
}

func (s *metaspaceStage) push(token string, next func(string)) {
	space := " "
	if !s.some && s.m.scheme != "never" {
		space = ""
	}
	s.some = true
	next(strings.ReplaceAll(token, s.m.replacement, space))
}

func (s *metaspaceStage) flush(func(string)) {}

// byteLevelStage reads tokens as bytes and hands on whole characters; U+FFFD stands for what is none.
type byteLevelStage struct{ bytes []byte }

func (s *byteLevelStage) push(token string, next func(string)) {
	s.bytes = appendTokenBytes(s.bytes, token)
	s.emit(next, false)
}

func (s *byteLevelStage) flush(next func(string)) { s.emit(next, true) }

func (s *byteLevelStage) emit(next func(string), end bool) {
	text := string(s.bytes)
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			var open bool
			if n, open = invalidPrefix(text); open && !end {
				break
			}
		}
		out.WriteRune(r)
		text = text[n:]
	}
	s.bytes = append(s.bytes[:0], text...)
	if out.Len() > 0 {
		next(out.String())
	}
}

// byteFallbackStage joins runs of <0xAB> tokens. A run that is not UTF-8 as a whole becomes U+FFFD for every byte of
// it, so nothing of a run is certain before its end: a run is handed on only then.
type byteFallbackStage struct{ run []byte }

func (s *byteFallbackStage) push(token string, next func(string)) {
	if b, ok := fallbackByte(token); ok {
		s.run = append(s.run, b)
		return
	}
	s.flush(next)
	next(token)
}

func (s *byteFallbackStage) flush(next func(string)) {
	if len(s.run) == 0 {
		return
	}
	if utf8.Valid(s.run) {
		next(string(s.run))
	} else {
		for range s.run { // a token each: a per-token Strip may follow
			next("\uFFFD")
		}
	}
	s.run = s.run[:0]
}

// fallbackByte reads <0xAB>, digits of either case.
func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	var b byte
	for _, c := range []byte(token[3:5]) {
		switch {
		case c >= '0' && c <= '9':
			b = b<<4 | (c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			b = b<<4 | (c | 0x20 - 'a' + 10)
		default:
			return 0, false
		}
	}
	return b, true
}

// stripStage drops up to lead characters char at the start and up to stop at the end, of each token or of the whole
// text.
type stripStage struct {
	char       rune
	lead, stop int
	each       bool
	held       int // characters at the end of what came so far that may have to go
}

func (s *stripStage) push(token string, next func(string)) {
	if s.each {
		one := stripStage{char: s.char, lead: s.lead, stop: s.stop}
		var out strings.Builder
		one.push(token, func(t string) { out.WriteString(t) })
		one.flush(func(t string) { out.WriteString(t) })
		next(out.String())
		return
	}
	for s.lead > 0 && token != "" {
		r, n := utf8.DecodeRuneInString(token)
		if r != s.char {
			s.lead = 0
			break
		}
		s.lead--
		token = token[n:]
	}
	if token == "" {
		return
	}
	body := strings.TrimRight(token, string(s.char))
	tail := utf8.RuneCountInString(token[len(body):])
	if body != "" {
		next(strings.Repeat(string(s.char), s.held) + body)
		s.held = 0
	}
	s.held += tail
	if sure := s.held - s.stop; sure > 0 {
		next(strings.Repeat(string(s.char), sure))
		s.held = s.stop
	}
}

// flush drops what is held: at most stop characters, all of them char.
func (s *stripStage) flush(func(string)) { s.held = 0 }
