package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object reads typed values out of a JSON object of a config file. A null value counts as an absent key, as Python's
// writers use both. Every problem is noted and reading goes on with a harmless value, so that one error can name
// everything that is wrong with the file.
type object struct {
	path     string // of this object, "" for the file itself, else ending in a dot
	fields   map[string]json.RawMessage
	problems *[]string
}

func (o object) problem(key, format string, args ...any) {
	text := o.path + show(key) + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(*o.problems, text) { // a value may be read more than once
		*o.problems = append(*o.problems, text)
	}
}

func (o object) mismatch(key, expected string) {
	found := "nothing"
	if o.has(key) {
		found = describeJSON(o.fields[key])
	}
	o.problem(key, "expected %s, found %s", expected, found)
}

func (o object) has(key string) bool {
	raw, ok := o.fields[key]
	return ok && string(raw) != "null"
}

// int reads a required integer. A number such as 96.0 counts as one: Python's writers produce it.
func (o object) int(key string, least, most int) int {
	n, ok := jsonInt(o.fields[key])
	if !ok || n < least || n > most {
		o.mismatch(key, fmt.Sprintf("an integer from %d to %d", least, most))
		return least
	}
	return n
}

func (o object) intOr(key string, absent, least, most int) int {
	if !o.has(key) {
		return absent
	}
	return o.int(key, least, most)
}

// float reads a required number from least (or above it, when open) to most.
func (o object) float(key string, in interval) float64 {
	x, ok := jsonFloat(o.fields[key])
	if !ok || !in.contains(x) {
		o.mismatch(key, in.String())
		return in.most
	}
	return x
}

func (o object) floatOr(key string, absent float64, in interval) float64 {
	if !o.has(key) {
		return absent
	}
	return o.float(key, in)
}

func (o object) boolOr(key string, absent bool) bool {
	if !o.has(key) {
		return absent
	}
	switch string(o.fields[key]) {
	case "true":
		return true
	case "false":
		return false
	}
	o.mismatch(key, "true or false")
	return absent
}

func (o object) stringOr(key, absent string) string {
	if !o.has(key) {
		return absent
	}
	s, ok := jsonString(o.fields[key])
	if !ok {
		o.mismatch(key, "a string")
		return absent
	}
	return s
}

// list reads an array; absent gives nil.
func (o object) list(key, expected string) []json.RawMessage {
	if !o.has(key) {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(o.fields[key], &items) != nil {
		o.mismatch(key, expected)
		return nil
	}
	return items
}

func (o object) object(key string) object {
	child := object{path: o.path + key + ".", problems: o.problems}
	if o.has(key) && json.Unmarshal(o.fields[key], &child.fields) != nil {
		o.mismatch(key, "an object")
	}
	return child
}

// interval is a range of finite numbers; the lower end may be left out.
type interval struct {
	least, most float64
	open        bool // least itself is not allowed
}

func (in interval) contains(x float64) bool {
	return x <= in.most && (x > in.least || x == in.least && !in.open)
}

func (in interval) String() string {
	if in.open {
		return fmt.Sprintf("a number above %g, at most %g", in.least, in.most)
	}
	return fmt.Sprintf("a number from %g to %g", in.least, in.most)
}

func jsonFloat(raw json.RawMessage) (float64, bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	return x, err == nil // an error here is a number beyond float64, such as 1e999
}

func jsonInt(raw json.RawMessage) (int, bool) {
	const exact = 1 << 53 // beyond it a float64 no longer tells neighbouring integers apart
	x, ok := jsonFloat(raw)
	if !ok || x != math.Trunc(x) || math.Abs(x) > exact {
		return 0, false
	}
	return int(x), true
}

func jsonString(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// describeJSON prints a value for an error message: its kind, and the value itself when it is short.
func describeJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "the string " + cut(string(raw))
	}
	return cut(string(raw))
}

// show prints a name that came from a file: as it is when it looks like a name, quoted and cut otherwise.
func show(name string) string {
	plain := func(r rune) bool {
		return r == '_' || r == '.' || r == '-' || r == '*' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if name != "" && len(name) <= mostShown && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return strconv.Quote(cut(name))
}

const mostShown = 120

func cut(s string) string {
	if len(s) <= mostShown {
		return s
	}
	end := mostShown
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:end], len(s))
}
