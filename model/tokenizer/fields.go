package tokenizer

import (
	"reflect"
	"slices"
	"strings"
)

// missingFields returns the JSON name of the first pointer, slice or map field of the struct behind v that is nil and
// not optional.
func missingFields(v any, optional []string) string {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		name, _, _ := strings.Cut(s.Type().Field(i).Tag.Get("json"), ",")
		switch f := s.Field(i); f.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if f.IsNil() && !slices.Contains(optional, name) {
				return name
			}
		}
	}
	return ""
}
