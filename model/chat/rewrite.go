package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reserved begins the names that rewritten templates use for themselves.
const reserved = "flint_"

// rewrite turns a template into one that means the same but leaves nothing to the library's own reading of it:
//
//   - Blanks around tags are settled here by Jinja's rules (trim_blocks and lstrip_blocks on, "-" and "+" marks, a last
//     newline dropped) and text becomes string expressions. The library would trim across neighbouring tags.
//   - A call of flint_at before every tag counts steps and remembers the line, for errors and for the caps.
//   - Filters that the library has differently, or lacks, get the names of ours (functions.go).
//   - What the library would misread without a word is refused.
func rewrite(template string) (string, error) {
	template = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(template)
	template = strings.TrimSuffix(template, "\n")
	w := &rewriter{src: template, line: 1, outLine: 1, lineStart: true}
	for tags := 0; w.pos < len(w.src); tags++ {
		if tags > maxTags {
			return "", w.fail(w.line, "expected at most %d tags, found more", maxTags)
		}
		if err := w.next(); err != nil {
			return "", err
		}
	}
	return w.out.String(), nil
}

// maxTags bounds the library's compile time, which grows with the square; the largest known template has about 700.
const maxTags = 10_000

type rewriter struct {
	src       string
	pos       int
	line      int  // of src[pos]
	lineStart bool // what was read last ended a line
	out       strings.Builder
	outLine   int
}

func (w *rewriter) fail(line int, format string, args ...any) error {
	return &TemplateError{Line: line, Message: fmt.Sprintf(format, args...)}
}

// advance moves to a byte offset and counts the lines between.
func (w *rewriter) advance(to int) {
	w.line += strings.Count(w.src[w.pos:to], "\n")
	w.pos = to
}

// emit writes a tag that stands on a line of the source, so that the library's own line numbers are the source's.
func (w *rewriter) emit(line int, tag string) {
	if line > w.outLine {
		w.out.WriteString("{#" + strings.Repeat("\n", line-w.outLine) + "#}")
		w.outLine = line
	}
	w.out.WriteString(tag)
	w.outLine += strings.Count(tag, "\n")
}

func (w *rewriter) text(line int, s string) {
	if s != "" {
		w.emit(line, "{{"+quoteJinja(s)+"}}")
	}
}

// next rewrites the text up to the next tag, and the tag.
func (w *rewriter) next() error {
	rest := w.src[w.pos:]
	at := nextTag(rest)
	if at < 0 {
		w.text(w.line, rest)
		w.pos = len(w.src)
		return nil
	}
	kind := rest[at+1]
	begin := at + 2
	sign := byte(0)
	if begin < len(rest) && (rest[begin] == '-' || rest[begin] == '+') {
		sign = rest[begin]
		begin++
	}
	w.text(w.line, stripBefore(rest[:at], sign, kind != '{', w.lineStart))
	w.advance(w.pos + at)
	line := w.line
	w.pos += begin - at
	switch kind {
	case '#':
		return w.comment(line)
	case '%':
		if n, sign := rawBegin(w.src[w.pos:]); n > 0 {
			return w.raw(line, n, sign)
		}
		return w.tag(line, "%}")
	}
	return w.tag(line, "}}")
}

// nextTag finds the first "{{", "{%" or "{#".
func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		i += from
		switch s[i+1] {
		case '{', '%', '#':
			return i
		}
		from = i + 1
	}
}

// stripBefore applies the rules for the text before a tag: "-" takes all blanks; without a sign, a statement or comment
// that is first on its line takes its indentation (lstrip_blocks).
func stripBefore(text string, sign byte, block, lineStart bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, unicode.IsSpace)
	}
	if sign == '+' || !block {
		return text
	}
	start := strings.LastIndexByte(text, '\n') + 1
	if (start > 0 || lineStart) && strings.TrimSpace(text[start:]) == "" {
		return text[:start]
	}
	return text
}

// close moves past a tag's end at byte offset end and the blanks it takes: all after "-", else, after a statement or
// comment without "+", one newline (trim_blocks).
func (w *rewriter) close(end int, sign byte, block bool) {
	to := end
	switch {
	case sign == '-':
		to = len(w.src) - len(strings.TrimLeftFunc(w.src[end:], unicode.IsSpace))
	case sign != '+' && block && strings.HasPrefix(w.src[end:], "\n"):
		to = end + 1
	}
	w.lineStart = w.src[to-1] == '\n'
	w.advance(to)
}

func (w *rewriter) comment(line int) error {
	i := strings.Index(w.src[w.pos:], "#}")
	if i < 0 {
		return w.fail(line, "the comment that begins here does not end")
	}
	sign := byte(0)
	if i > 0 {
		sign = w.src[w.pos+i-1]
	}
	w.close(w.pos+i+2, sign, true)
	return nil
}

// raw copies a block whose tags are text; its opening tag has length more bytes and ends with sign.
func (w *rewriter) raw(line, length int, sign byte) error {
	w.advance(w.pos + length)
	if sign == '-' {
		w.close(w.pos, '-', true)
	}
	begin, end, before, after := rawEnd(w.src[w.pos:])
	if begin < 0 {
		return w.fail(line, "the raw block that begins here does not end")
	}
	w.text(w.line, stripBefore(w.src[w.pos:w.pos+begin], before, true, false))
	w.close(w.pos+end, after, true)
	return nil
}

// tag rewrites an expression or statement; its content starts at pos.
func (w *rewriter) tag(line int, closer string) error {
	content, length, sign, err := w.content(line, closer)
	if err != nil {
		return err
	}
	w.close(w.pos+length, sign, closer == "%}")
	content = strings.TrimSpace(content)
	if closer == "}}" {
		if content == "" {
			return w.fail(line, "expected an expression, found {{ }}")
		}
		w.emit(line, fmt.Sprintf("{{%sat(%d)}}{{ %s }}", reserved, line, content))
		return nil
	}
	return w.statement(line, content)
}

func (w *rewriter) statement(line int, content string) error {
	at := fmt.Sprintf("{{%sat(%d)}}", reserved, line)
	switch keyword(content) {
	case "else", "endif", "endfor", "endset", "endmacro", "endcall", "endfilter", "endgeneration":
		at = ""
	case "elif":
		content = fmt.Sprintf("elif %sat(%d) or (%s)", reserved, line, content[len("elif"):])
		at = ""
	case "set":
		target := setTarget(content)
		if target == 0 {
			return w.fail(line, "expected set name = value, set name.key = value or set name, found %.80q", content)
		}
		if target < len(content) || strings.HasSuffix(content, "=") {
			content = fmt.Sprintf("%s %skeep(%s)", content[:target], reserved, content[target:])
		}
	case "macro":
		// Defaults are evaluated outside any tag, so nothing in them would count as a step, and the library splits the list
		// at every comma.
		params, ok := macroParameters(content)
		if !ok {
			return w.fail(line, "expected macro name(parameters) with plain values as defaults, found %.80q", content)
		}
		if err := checkDefaults(params); err != nil {
			return w.fail(line, "%v", err)
		}
	}
	w.emit(line, at+"{% "+content+" %}")
	return nil
}

// checkDefaults refuses commas within defaults.
func checkDefaults(params string) error {
	depth, quote := 0, rune(0)
	for _, r := range params {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune("[{", r):
			depth++
		case strings.ContainsRune("]}", r):
			depth--
		}
		if r == ',' && (quote != 0 || depth != 0) {
			return fmt.Errorf("a macro's default value must not contain a comma, found %.80q", params)
		}
	}
	return nil
}

// content copies what stands between a tag's marks, up to closer outside quotes and brackets. It returns the rewritten
// content, the length of the original with its closer, and the sign before the closer.
func (w *rewriter) content(line int, closer string) (content string, length int, sign byte, err error) {
	s := w.src[w.pos:]
	var b strings.Builder
	depth := 0
	for i := 0; i < len(s); {
		if depth == 0 {
			if strings.HasPrefix(s[i:], closer) {
				return b.String(), i + 2, 0, nil
			}
			if (s[i] == '-' || s[i] == '+' && closer == "%}") && strings.HasPrefix(s[i+1:], closer) {
				return b.String(), i + 3, s[i], nil
			}
		}
		switch c := s[i]; {
		case c == '\'' || c == '"':
			value, n, ok := unquote(s[i:])
			if !ok {
				return "", 0, 0, w.fail(line, "a string in this tag does not end")
			}
			b.WriteString(quoteJinja(value))
			i += n
		case c == '|':
			n, name := filterName(s[i:])
			if strings.HasPrefix(strings.TrimSpace(s[i+1:i+n]), reserved) {
				return "", 0, 0, w.fail(line, "names that begin with %s are reserved", reserved)
			}
			b.WriteString("|" + name)
			i += n
		default:
			if strings.HasPrefix(s[i:], reserved) && (i == 0 || !identByte(s[i-1])) {
				return "", 0, 0, w.fail(line, "names that begin with %s are reserved", reserved)
			}
			if c >= '0' && c <= '9' && (i == 0 || !identByte(s[i-1])) {
				digits := strings.TrimLeft(s[i:i+numberLength(s[i:])], "0")
				if len(digits) > maxDigits {
					return "", 0, 0, w.fail(line, "expected a number of at most %d digits, found %.40s", maxDigits, digits)
				}
			}
			if strings.IndexByte("([{", c) >= 0 {
				depth++
			}
			if strings.IndexByte(")]}", c) >= 0 {
				depth--
			}
			if depth > maxDepth {
				return "", 0, 0, w.fail(line, "expected at most %d open brackets, found more", maxDepth)
			}
			if !plainByte(c) && !strings.HasPrefix(s[i:], "!=") {
				r, _ := utf8.DecodeRuneInString(s[i:])
				return "", 0, 0, w.fail(line, "unexpected character %q in a tag", r)
			}
			b.WriteByte(c)
			if c == '}' {
				b.WriteByte(' ') // the library ends a tag at the first "}}", within nested objects too
			}
			i++
			if c == '!' {
				b.WriteByte('=')
				i++
			}
		}
		if b.Len() > maxTag {
			return "", 0, 0, w.fail(line, "expected a tag of at most %d bytes, found more", maxTag)
		}
	}
	return "", 0, 0, w.fail(line, "the tag that begins here does not end with %s", closer)
}

// maxTag bounds the library's recursion, which goes as deep as one expression is long.
const maxTag = 64 << 10

// maxDigits keeps slices, indents and repetitions to sizes that end: the library counts a slice's bounds one by one, even
// far beyond the string.
const maxDigits = 7

func numberLength(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// plainByte tells what may stand in a tag outside strings. The library skips everything else without a word.
func plainByte(c byte) bool {
	return identByte(c) || strings.IndexByte(" \t\n\v\f+-*/%<>=.,:()[]{}~", c) >= 0
}

func identByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// filterName reads "| name" and returns its length and the name to write.
func filterName(s string) (int, string) {
	n := 1
	for n < len(s) && strings.IndexByte(" \t\n\v\f", s[n]) >= 0 {
		n++
	}
	name := keyword(s[n:])
	n += len(name)
	if _, ours := filters[name]; ours {
		name = reserved + name
	}
	// The newlines skipped between are kept for the line count.
	return n, strings.Repeat("\n", strings.Count(s[:n], "\n")) + name
}

var escapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", 'a': "\a", '0': "\x00",
	'\\': `\`, '\'': `'`, '"': `"`, '\n': "",
}

// unquote reads a string literal as Python does: an unknown escape stays as it is.
func unquote(s string) (value string, length int, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return b.String(), i + 1, true
		case s[i] == '\\' && i+1 < len(s):
			i++
			if e, known := escapes[s[i]]; known {
				b.WriteString(e)
				continue
			}
			if r, n := unicodeEscape(s[i:]); n > 0 {
				b.WriteRune(r)
				i += n - 1
				continue
			}
			b.WriteByte('\\')
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, false
}

// unicodeEscape reads x41, u0041 or U00000041; n is 0 when s is none of them.
func unicodeEscape(s string) (r rune, n int) {
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if digits == 0 || len(s) <= digits {
		return 0, 0
	}
	for _, c := range []byte(s[1 : 1+digits]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, 0
		}
		r = r<<4 | rune(d)
	}
	if !utf8.ValidRune(r) {
		return 0, 0
	}
	return r, 1 + digits
}

// quoteJinja writes s as a literal that the library reads back exactly.
func quoteJinja(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
