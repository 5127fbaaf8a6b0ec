package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits on a tokenizer.json: far above the largest in use (gpt-oss: 28 MB, 200,019 ids, 446,189 merges), low enough
// that a broken or hostile file ends in an error and not in a page out of memory.
const (
	maxFile      = 256 << 20 // bytes
	maxID        = 1 << 21   // ids, so also the length of the id table
	maxMerges    = 1 << 23
	maxToken     = 16 << 10 // bytes of one token
	maxComponent = 16 << 20 // bytes of one part that is not the vocabulary or the merges
	maxDepth     = 64
)

// scanner reads JSON from a stream without building a tree: vocabulary and merges are most of a tokenizer.json, and a
// general decoder spends several seconds on them in WebAssembly.
//
// The first error sticks; every method is a no-op after it, so callers check err once a loop.
type scanner struct {
	r        io.Reader
	buf      []byte
	pos, end int
	base     int64 // offset of buf[0] in the stream
	err      error
	text     []byte // the last string
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, 64<<10)}
}

func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("byte %d: %w", s.offset(), fmt.Errorf(format, args...))
	}
}

// fill reads more; false at the end or on an error.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	s.base += int64(s.pos)
	copy(s.buf, s.buf[s.pos:s.end])
	s.end -= s.pos
	s.pos = 0
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		if n < 0 || n > len(s.buf)-s.end {
			s.fail("the reader returned %d bytes for %d asked", n, len(s.buf)-s.end)
			return false
		}
		s.end += n
		if s.base+int64(s.end) > maxFile {
			s.fail("the file is larger than %d MiB", maxFile>>20)
			return false
		}
		if n > 0 {
			return true
		}
		if err == io.EOF {
			return false
		}
		if err != nil {
			s.fail("reading: %w", err)
			return false
		}
	}
	s.fail("reading: %w", io.ErrNoProgress)
	return false
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	for {
		for s.pos < s.end {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\n', '\r':
				s.pos++
			default:
				if s.err != nil {
					return 0
				}
				return c
			}
		}
		if !s.fill() {
			return 0
		}
	}
}

// found describes the next byte for an error message.
func (s *scanner) found() string {
	c := s.peek()
	if c == 0 && s.pos == s.end {
		return "the end of the file"
	}
	return fmt.Sprintf("%q", c)
}

func (s *scanner) want(c byte, what string) {
	if s.peek() != c || s.err != nil {
		s.fail("want %q %s, found %s", c, what, s.found())
		return
	}
	s.pos++
}

// more steps to the next element of an object or array that is closed by end; first says that none was read yet.
func (s *scanner) more(first bool, end byte, what string) bool {
	c := s.peek()
	switch {
	case s.err != nil:
		return false
	case c == end:
		s.pos++
		return false
	case first:
		return true
	case c == ',':
		s.pos++
		if s.peek() == end {
			s.fail("want another element of %s after ',', found %q", what, end)
			return false
		}
		return s.err == nil
	}
	s.fail("want ',' or %q in %s, found %s", end, what, s.found())
	return false
}

// key reads `"key":` and returns the key.
func (s *scanner) key(what string) string {
	k := string(s.str(what))
	s.want(':', "after the key "+quote(k))
	return k
}

// str reads a string of at most maxToken bytes. The result lives until the next call.
func (s *scanner) str(what string) []byte {
	s.text = s.text[:0]
	if s.peek() != '"' || s.err != nil {
		s.fail("want a string (%s), found %s", what, s.found())
		return nil
	}
	s.pos++
	for s.err == nil {
		i := s.pos
		for i < s.end && s.buf[i] != '"' && s.buf[i] != '\\' && s.buf[i] >= 0x20 {
			i++
		}
		s.text = append(s.text, s.buf[s.pos:i]...)
		s.pos = i
		if len(s.text) > maxToken {
			s.fail("%s is longer than %d bytes", what, maxToken)
			break
		}
		if i == s.end {
			if !s.fill() {
				s.fail("the file ends inside a string (%s)", what)
			}
			continue
		}
		switch s.buf[i] {
		case '"':
			if !utf8.Valid(s.text) {
				s.fail("%s is not valid UTF-8", what)
				return nil
			}
			s.pos++
			return s.text
		case '\\':
			s.pos++
			s.escape(what)
		default:
			s.fail("control character %#02x inside a string (%s)", s.buf[i], what)
		}
	}
	return nil
}

// escape reads what follows a backslash.
func (s *scanner) escape(what string) {
	c := s.raw()
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r := s.hex4()
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if s.raw() == '\\' && s.raw() == 'u' {
				low = s.hex4()
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				s.fail("half of a surrogate pair in %s", what)
				return
			}
		}
		s.text = utf8.AppendRune(s.text, r)
		return
	default:
		s.fail("unknown escape \\%c in %s", c, what)
		return
	}
	s.text = append(s.text, c)
}

// raw returns the next byte as it is, 0 at the end.
func (s *scanner) raw() byte {
	if s.pos == s.end && !s.fill() {
		s.fail("the file ends inside a string")
		return 0
	}
	c := s.buf[s.pos]
	s.pos++
	return c
}

func (s *scanner) hex4() rune {
	var r rune
	for range 4 {
		c := s.raw()
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			s.fail("want four hexadecimal digits after \\u, found %q", c)
			return 0
		}
	}
	return r
}

// id reads a whole number from 0 to below maxID.
func (s *scanner) id(what string) int32 {
	c := s.peek()
	if c < '0' || c > '9' {
		s.fail("want an id (%s), found %s", what, s.found())
		return 0
	}
	n, digits := 0, 0
	for s.err == nil && (s.pos < s.end || s.fill()) {
		c := s.buf[s.pos]
		if c == '.' || c == 'e' || c == 'E' || (digits == 1 && n == 0 && c >= '0' && c <= '9') {
			s.fail("want a whole number (%s)", what)
			return 0
		}
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
		digits++
		s.pos++
		if n >= maxID {
			s.fail("id of %s is %d or more; ids must be below %d", what, n, maxID)
			return 0
		}
	}
	return int32(n)
}

var errDepth = errors.New("nested too deeply")

// value copies the next value, whatever it is, for a general JSON decoder.
func (s *scanner) value(what string) []byte {
	var out []byte
	depth, quoted, escaped := 0, false, false
	s.peek()
	for s.err == nil {
		if s.pos == s.end && !s.fill() {
			if depth > 0 || quoted || len(out) == 0 {
				s.fail("the file ends inside %s", what)
			}
			return out
		}
		c := s.buf[s.pos]
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				s.fail("%s: %w", what, errDepth)
				return nil
			}
		case c == '}' || c == ']':
			if depth == 0 {
				return out // the end of what holds the value
			}
			depth--
			if depth == 0 {
				s.pos++
				return append(out, c)
			}
		case depth == 0 && (c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			return out
		}
		out = append(out, c)
		s.pos++
		if len(out) > maxComponent {
			s.fail("%s is larger than %d MiB", what, maxComponent>>20)
			return nil
		}
		if depth == 0 && !quoted && c == '"' {
			return out
		}
	}
	return nil
}
