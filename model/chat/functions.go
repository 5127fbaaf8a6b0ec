package chat

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Caps on what one rendering may do. A template that needs more is broken or hostile.
const (
	maxSteps  = 5_000_000        // tags executed
	maxTime   = 10 * time.Second // of the wall clock
	maxFrames = 20_000           // Go stack frames; a macro calling itself takes about ten a level
	maxRange  = 100_000          // items of range()
	maxString = 16 << 20         // bytes of a string kept by set
	checkEach = 256              // steps between looks at clock and stack
)

// run is the state of one rendering.
type run struct {
	start    time.Time
	maxSteps int
	now      time.Time
	guard    *guard
	line     int
	steps    int
}

type raisedError string

func (e raisedError) Error() string { return string(e) }

type function = func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error)

// filters are those that stand in for the library's, under the same name with the reserved prefix.
var filters = map[string]func(*run) function{
	"tojson":   func(r *run) function { return r.tojson },
	"map":      func(*run) function { return mapFilter },
	"dictsort": func(*run) function { return dictsort },
	"first":    func(*run) function { return first },
	"last":     func(*run) function { return last },
}

// register adds our functions to a template's variables.
func (r *run) register(vars map[string]jinja.Value) {
	add := func(name string, f function) { vars[name] = jinja.NewCallable(name, f) }
	add(reserved+"at", r.at)
	add(reserved+"keep", keep)
	for name, f := range filters {
		add(reserved+name, f(r))
	}
	add("raise_exception", raise)
	add("strftime_now", r.strftimeNow)
	add("range", rangeOf)
}

// at is called with its line before every tag. It prints nothing and is false.
func (r *run) at(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	r.line = int(args[0].AsInt())
	r.steps++
	if r.steps%checkEach == 0 {
		if r.steps > r.maxSteps {
			return jinja.Undefined(), fmt.Errorf("stopped after %d steps", r.maxSteps)
		}
		if time.Since(r.start) > maxTime {
			return jinja.Undefined(), fmt.Errorf("stopped after %v", maxTime)
		}
		var pc [1]uintptr
		if runtime.Callers(maxFrames, pc[:]) > 0 {
			return jinja.Undefined(), errors.New("macros call each other too deeply")
		}
	}
	return jinja.NewString(""), nil
}

// keep passes on the value of a set statement.
func keep(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || len(kwargs) > 0 {
		return jinja.Undefined(), errors.New("set: expected one value")
	}
	if args[0].IsString() && len(args[0].AsString()) > maxString {
		return jinja.Undefined(), fmt.Errorf("set: expected a string of at most %d bytes, found %d", maxString, len(args[0].AsString()))
	}
	return args[0], nil
}

func raise(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Undefined(), raisedError("(no message)")
	}
	if args[0].IsString() {
		return jinja.Undefined(), raisedError(args[0].AsString())
	}
	return jinja.Undefined(), raisedError(args[0].String())
}

func rangeOf(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	limits := [3]int64{0, 0, 1} // start, stop, step
	if len(args) == 0 || len(args) > 3 || len(kwargs) > 0 {
		return jinja.Undefined(), fmt.Errorf("range: expected 1 to 3 whole numbers, found %d arguments", len(args)+len(kwargs))
	}
	for i, a := range args {
		if !a.IsInt() {
			return jinja.Undefined(), fmt.Errorf("range: expected whole numbers, found %.40s", a)
		}
		if len(args) == 1 {
			i = 1
		}
		limits[i] = a.AsInt()
	}
	start, stop, step := limits[0], limits[1], limits[2]
	if step == 0 {
		return jinja.Undefined(), errors.New("range: the step is 0")
	}
	var items []jinja.Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(items) == maxRange {
			return jinja.Undefined(), fmt.Errorf("range: expected at most %d items, found more", maxRange)
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}

// mapFilter is map(attribute="key", default=...) and map("filter") for the filters of one argument that templates map.
func mapFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 || !args[0].IsList() {
		return jinja.Undefined(), errors.New("map: expected a list")
	}
	items := make([]jinja.Value, args[0].AsList().Len())
	if key, ok := kwargs["attribute"]; ok && key.IsString() && len(args) == 1 {
		for i, item := range args[0].AsList().Items {
			items[i] = kwargs["default"]
			if item.IsDict() {
				if v, ok := item.AsDict().Get(key.AsString()); ok {
					items[i] = v
				}
			}
		}
		return jinja.NewList(items), nil
	}
	each := map[string]func(string) string{
		"upper": strings.ToUpper, "lower": strings.ToLower, "trim": strings.TrimSpace, "string": func(s string) string { return s },
	}
	if len(args) != 2 || len(kwargs) > 0 || !args[1].IsString() || each[args[1].AsString()] == nil {
		return jinja.Undefined(), errors.New("map: expected attribute=key, or one of upper, lower, trim and string")
	}
	for i, item := range args[0].AsList().Items {
		if !item.IsString() {
			return jinja.Undefined(), fmt.Errorf("map(%s): expected strings, found %.40s", args[1], item)
		}
		items[i] = jinja.NewString(each[args[1].AsString()](item.AsString()))
	}
	return jinja.NewList(items), nil
}

// dictsort sorts an object by its keys, not minding case unless told to.
func dictsort(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsDict() {
		return jinja.Undefined(), errors.New("dictsort: expected an object, and options by name")
	}
	if by, ok := kwargs["by"]; ok && !by.Equals(jinja.NewString("key")) {
		return jinja.Undefined(), fmt.Errorf("dictsort: only by='key' is supported, found %.40s", by)
	}
	fold := strings.ToLower
	if kwargs["case_sensitive"].IsTruthy() {
		fold = func(s string) string { return s }
	}
	d := args[0].AsDict()
	keys := d.OrderedKeys()
	slices.SortStableFunc(keys, func(a, b string) int { return strings.Compare(fold(a), fold(b)) })
	if kwargs["reverse"].IsTruthy() {
		slices.Reverse(keys)
	}
	items := make([]jinja.Value, len(keys))
	for i, k := range keys {
		items[i] = jinja.NewList([]jinja.Value{jinja.NewString(k), d.Data[k]})
	}
	return jinja.NewList(items), nil
}

func first(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return end(args, false)
}

func last(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return end(args, true) }

// end returns an item at an end of a list, or a character of a string; undefined when there is none.
func end(args []jinja.Value, back bool) (jinja.Value, error) {
	if len(args) != 1 {
		return jinja.Undefined(), errors.New("first, last: expected no arguments")
	}
	var items []jinja.Value
	switch v := args[0]; {
	case v.IsList():
		items = v.AsList().Items
	case v.IsString():
		for _, r := range v.AsString() {
			items = append(items, jinja.NewString(string(r)))
		}
	case v.IsDict():
		for _, k := range v.AsDict().Keys {
			items = append(items, jinja.NewString(k))
		}
	}
	if len(items) == 0 {
		return jinja.Undefined(), nil
	}
	if back {
		return items[len(items)-1], nil
	}
	return items[0], nil
}

// strftimeNow formats the present as Python's strftime does in the C locale.
func (r *run) strftimeNow(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.Undefined(), errors.New("strftime_now: expected a format")
	}
	now := r.now
	if now.IsZero() {
		now = time.Now()
	}
	text, err := strftime(now, args[0].AsString())
	if err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(text), nil
}

var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'j': "002", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'z': "-0700", 'Z': "MST",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		unpadded := i < len(format) && format[i] == '-'
		if unpadded {
			i++
		}
		if i >= len(format) {
			return "", fmt.Errorf("strftime_now: the format %.40q ends in the middle of a directive", format)
		}
		layout, ok := layouts[format[i]]
		switch {
		case format[i] == '%' && !unpadded:
			b.WriteByte('%')
		case !ok:
			return "", fmt.Errorf("strftime_now: unknown directive %%%c in %.40q", format[i], format)
		case unpadded:
			s := strings.TrimLeft(t.Format(layout), "0 ")
			if s == "" {
				s = "0"
			}
			b.WriteString(s)
		default:
			b.WriteString(t.Format(layout))
		}
	}
	return b.String(), nil
}
