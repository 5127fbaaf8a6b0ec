package chat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/ardanlabs/jinja"
)

// tojson is transformers' filter: Python's json.dumps with ensure_ascii off, objects in their own order.
func (r *run) tojson(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	options := []string{"ensure_ascii", "indent", "separators", "sort_keys"}
	if len(args) == 0 || len(args) > 1+len(options) {
		return jinja.Undefined(), fmt.Errorf("tojson: expected a value and at most %d options, found %d arguments", len(options), len(args))
	}
	given := map[string]jinja.Value{}
	for i, a := range args[1:] {
		given[options[i]] = a
	}
	for name, v := range kwargs {
		if !slices.Contains(options, name) {
			return jinja.Undefined(), fmt.Errorf("tojson: unknown option %.40q", name)
		}
		given[name] = v
	}
	e := jsonEncoder{guard: r.guard, ascii: given["ensure_ascii"].IsTruthy(), sorted: given["sort_keys"].IsTruthy(), item: ", ", key: ": "}
	if v := given["indent"]; v.IsInt() {
		if v.AsInt() < 0 || v.AsInt() > 16 {
			return jinja.Undefined(), fmt.Errorf("tojson: expected an indent from 0 to 16, found %d", v.AsInt())
		}
		e.indent, e.pretty, e.item = strings.Repeat(" ", int(v.AsInt())), true, ","
	} else if v.IsTruthy() {
		return jinja.Undefined(), fmt.Errorf("tojson: expected a whole number as indent, found %.40s", v)
	}
	if v := given["separators"]; v.IsList() {
		s := v.AsList().Items
		if len(s) != 2 || !s[0].IsString() || !s[1].IsString() {
			return jinja.Undefined(), fmt.Errorf("tojson: expected two strings as separators, found %.40s", v)
		}
		e.item, e.key = s[0].AsString(), s[1].AsString()
	}
	if err := e.value(args[0], 0); err != nil {
		return jinja.Undefined(), fmt.Errorf("tojson: %w", err)
	}
	return jinja.NewString(e.out.String()), nil
}

type jsonEncoder struct {
	guard                 *guard
	ascii, sorted, pretty bool
	indent, item, key     string
	out                   strings.Builder
}

func (e *jsonEncoder) value(v jinja.Value, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("expected at most %d levels of nesting, found more", maxDepth)
	}
	switch {
	case v.IsNone():
		e.out.WriteString("null")
	case v.IsBool():
		e.out.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		e.out.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		e.out.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		e.text(v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return e.group('[', ']', len(items), depth, func(i int) error { return e.value(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		keys := d.OrderedKeys()
		if e.sorted {
			slices.Sort(keys)
		}
		return e.group('{', '}', len(keys), depth, func(i int) error {
			e.text(keys[i])
			e.out.WriteString(e.key)
			return e.value(d.Data[keys[i]], depth+1)
		})
	case v.IsUndefined():
		return errors.New("the value is undefined")
	default:
		return fmt.Errorf("%.40s has no JSON form", v)
	}
	return nil
}

func (e *jsonEncoder) group(open, end byte, n, depth int, member func(i int) error) error {
	e.out.WriteByte(open)
	for i := range n {
		if i > 0 {
			e.out.WriteString(e.item)
		}
		e.newline(depth + 1)
		if err := member(i); err != nil {
			return err
		}
	}
	if n > 0 {
		e.newline(depth)
	}
	e.out.WriteByte(end)
	return nil
}

func (e *jsonEncoder) newline(depth int) {
	if e.pretty {
		e.out.WriteByte('\n')
		e.out.WriteString(strings.Repeat(e.indent, depth))
	}
}

// text writes a string. A rune that the guard stands in for stays so, unless the original would be written as an escape.
func (e *jsonEncoder) text(s string) {
	e.out.WriteByte('"')
	for _, r := range s {
		original := r
		if o, ok := e.guard.unmark[r]; ok {
			original = o
		}
		switch {
		case original == '"' || original == '\\':
			e.out.WriteByte('\\')
			e.out.WriteRune(original)
		case original == '\n':
			e.out.WriteString(`\n`)
		case original == '\r':
			e.out.WriteString(`\r`)
		case original == '\t':
			e.out.WriteString(`\t`)
		case original == '\b':
			e.out.WriteString(`\b`)
		case original == '\f':
			e.out.WriteString(`\f`)
		case original < ' ' || e.ascii && original > '~' && original <= 0xFFFF:
			fmt.Fprintf(&e.out, `\u%04x`, original)
		case e.ascii && original > 0xFFFF:
			hi, lo := utf16.EncodeRune(original)
			fmt.Fprintf(&e.out, `\u%04x\u%04x`, hi, lo)
		default:
			e.out.WriteRune(r)
		}
	}
	e.out.WriteByte('"')
}

// pythonFloat prints a float as Python's repr, which json.dumps uses: the shortest digits that read back, an exponent
// from 1e16 and below 1e-4, and a fraction even for whole numbers.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
