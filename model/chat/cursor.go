package chat

import "strings"

// cursor reads the few fixed shapes inside template tags. Package regexp would do it in fewer lines and add half a
// megabyte to the engine.
type cursor struct {
	s string
	i int
}

// space skips blanks and reports whether there were any.
func (c *cursor) space() bool {
	from := c.i
	for c.i < len(c.s) && strings.IndexByte(" \t\n\r\f", c.s[c.i]) >= 0 {
		c.i++
	}
	return c.i > from
}

// eat skips text if it comes next.
func (c *cursor) eat(text string) bool {
	if !strings.HasPrefix(c.s[c.i:], text) {
		return false
	}
	c.i += len(text)
	return true
}

// sign skips one of signs and returns it, or 0.
func (c *cursor) sign(signs string) byte {
	if c.i < len(c.s) && strings.IndexByte(signs, c.s[c.i]) >= 0 {
		c.i++
		return c.s[c.i-1]
	}
	return 0
}

// name skips an identifier and reports whether there was one.
func (c *cursor) name() bool {
	from := c.i
	for c.i < len(c.s) && identByte(c.s[c.i]) && (c.i > from || c.s[c.i] < '0' || c.s[c.i] > '9') {
		c.i++
	}
	return c.i > from
}

// keyword returns the letters that s begins with.
func keyword(s string) string {
	n := 0
	for n < len(s) && identByte(s[n]) && (s[n] < '0' || s[n] > '9') {
		n++
	}
	return s[:n]
}

// rawBegin reads " raw -%}" and returns its length and sign; 0 if it is something else.
func rawBegin(s string) (length int, sign byte) {
	c := cursor{s: s}
	c.space()
	if !c.eat("raw") {
		return 0, 0
	}
	c.space()
	sign = c.sign("-")
	if !c.eat("%}") {
		return 0, 0
	}
	return c.i, sign
}

// rawEnd finds "{%- endraw -%}" with its signs: its begin and end in s, or -1.
func rawEnd(s string) (begin, end int, before, after byte) {
	for from := 0; ; {
		i := strings.Index(s[from:], "{%")
		if i < 0 {
			return -1, -1, 0, 0
		}
		begin = from + i
		c := cursor{s: s, i: begin + 2}
		before = c.sign("-+")
		c.space()
		if c.eat("endraw") {
			c.space()
			after = c.sign("-+")
			if c.eat("%}") {
				return begin, c.i, before, after
			}
		}
		from = begin + 2
	}
}

// setTarget reads "set name", "set name.key" and the = after it, if there is one; 0 if it is something else.
func setTarget(s string) int {
	c := cursor{s: s}
	if !c.eat("set") || !c.space() || !c.name() {
		return 0
	}
	for dotted := false; ; dotted = true {
		c.space()
		if c.i == len(s) || c.eat("=") {
			return c.i
		}
		if dotted || !c.eat(".") {
			return 0
		}
		c.space()
		if !c.name() {
			return 0
		}
	}
}

// macroParameters returns what stands in the parentheses of "macro name(...)".
func macroParameters(s string) (string, bool) {
	c := cursor{s: s}
	if !c.eat("macro") || !c.space() || !c.name() {
		return "", false
	}
	c.space()
	if !c.eat("(") {
		return "", false
	}
	params, closed := strings.CutSuffix(s[c.i:], ")")
	return params, closed && !strings.ContainsAny(params, "(|")
}

// readsKey reports whether a template takes key from a value: .key, ['key'] or ["key"].
func readsKey(template, key string) bool {
	for _, opening := range []string{".", "['", `["`} {
		for rest := template; ; {
			_, after, found := strings.Cut(rest, opening+key)
			if !found {
				break
			}
			if after == "" || !identByte(after[0]) {
				return true
			}
			rest = after
		}
	}
	return false
}
