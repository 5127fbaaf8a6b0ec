package engine

import "strings"

// stopStrings ends an answer before any of some strings appears in it, also when it comes in pieces: text that may be
// the beginning of one is held back until it is clear.
type stopStrings struct {
	strings []string
	held    string
}

func newStopStrings(list []string) stopStrings {
	var s stopStrings
	for _, stop := range list {
		if stop != "" {
			s.strings = append(s.strings, stop)
		}
	}
	return s
}

// push takes the next text, emits what is safe to show, and reports whether a stop string was found.
func (s *stopStrings) push(text string, emit func(string)) bool {
	text = s.held + text
	s.held = ""
	first := -1
	for _, stop := range s.strings {
		if i := strings.Index(text, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		if first > 0 {
			emit(text[:first])
		}
		return true
	}
	keep := 0
	for _, stop := range s.strings {
		for n := min(len(stop)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = text[len(text)-keep:]
	if keep < len(text) {
		emit(text[:len(text)-keep])
	}
	return false
}

// flush emits what was held back when the answer ends without a stop string.
func (s *stopStrings) flush(emit func(string)) {
	if s.held != "" {
		emit(s.held)
		s.held = ""
	}
}
