package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// maxDepth bounds nesting of JSON, since the library walks values by recursion.
const maxDepth = 200

// optional decodes raw; nil and null give none. kind says what else is acceptable.
func optional(raw json.RawMessage, what string, kind func(jinja.Value) bool) (jinja.Value, error) {
	if len(raw) == 0 {
		return jinja.None(), nil
	}
	v, err := decode(raw)
	if err != nil {
		return jinja.None(), fmt.Errorf("chat: %s: %w", what, err)
	}
	if !v.IsNone() && !kind(v) {
		return jinja.None(), fmt.Errorf("chat: %s: expected JSON of another kind (Tools, Parts and ToolCalls are lists, Extra is an object), found %.60q", what, raw)
	}
	return v, nil
}

// decode turns JSON into a value whose objects keep their order: models are trained on tool schemas in the order they
// were written, and a map would sort them.
func decode(raw []byte) (jinja.Value, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := decodeNext(dec, 0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return jinja.None(), fmt.Errorf("JSON at byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return jinja.None(), fmt.Errorf("JSON at byte %d: expected one value, found more", dec.InputOffset())
	}
	return v, nil
}

func decodeNext(dec *json.Decoder, depth int) (jinja.Value, error) {
	if depth > maxDepth {
		return jinja.None(), fmt.Errorf("expected at most %d levels of nesting, found more", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return jinja.None(), err
	}
	switch v := tok.(type) {
	case nil:
		return jinja.None(), nil
	case bool:
		return jinja.NewBool(v), nil
	case string:
		return jinja.NewString(v), nil
	case json.Number:
		return number(string(v))
	case json.Delim:
		if v == '[' {
			return decodeList(dec, depth)
		}
		return decodeObject(dec, depth)
	}
	return jinja.None(), fmt.Errorf("unexpected %v", tok)
}

// number keeps whole numbers whole, as Python does: 1 prints as 1 and 1.0 as 1.0.
func number(s string) (jinja.Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return jinja.NewInt(n), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return jinja.None(), fmt.Errorf("number %.40q: %w", s, err)
	}
	return jinja.NewFloat(f), nil
}

func decodeList(dec *json.Decoder, depth int) (jinja.Value, error) {
	var items []jinja.Value
	for dec.More() {
		item, err := decodeNext(dec, depth+1)
		if err != nil {
			return jinja.None(), err
		}
		items = append(items, item)
	}
	_, err := dec.Token()
	return jinja.NewList(items), err
}

func decodeObject(dec *json.Decoder, depth int) (jinja.Value, error) {
	v := jinja.NewDict()
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return v, err
		}
		name, ok := key.(string)
		if !ok {
			return v, fmt.Errorf("expected a key, found %v", key)
		}
		item, err := decodeNext(dec, depth+1)
		if err != nil {
			return v, err
		}
		v.AsDict().Set(name, item)
	}
	_, err := dec.Token()
	return v, err
}

// mapStrings copies v with every string replaced; key is the object key that led to the string, if any.
func mapStrings(v jinja.Value, key string, f func(key, s string) string) jinja.Value {
	switch {
	case v.IsString():
		return jinja.NewString(f(key, v.AsString()))
	case v.IsList():
		items := make([]jinja.Value, v.AsList().Len())
		for i, item := range v.AsList().Items {
			items[i] = mapStrings(item, key, f)
		}
		return jinja.NewList(items)
	case v.IsDict():
		out := jinja.NewDict()
		for _, k := range v.AsDict().Keys {
			out.AsDict().Set(k, mapStrings(v.AsDict().Data[k], k, f))
		}
		return out
	}
	return v
}
