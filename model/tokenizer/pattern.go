package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// pattern is a {"String": ...} or {"Regex": ...} of the file.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// finder returns the matches in s from left to right, as byte offsets.
type finder func(s string) ([][2]int, error)

func newFinder(c component, p *pattern) (finder, error) {
	switch {
	case p.Regex != nil && p.String == nil:
		find, err := regexFinder(*p.Regex)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.where, c.kind, err)
		}
		return find, nil
	case p.String != nil && p.Regex == nil && *p.String != "":
		return func(s string) ([][2]int, error) { return findLiteral(s, *p.String), nil }, nil
	}
	return nil, fmt.Errorf("%s: %s: want a pattern {\"String\": text} or {\"Regex\": expression}", c.where, c.kind)
}

func findLiteral(s, literal string) (out [][2]int) {
	for at := 0; ; {
		i := strings.Index(s[at:], literal)
		if i < 0 {
			return out
		}
		out = append(out, [2]int{at + i, at + i + len(literal)})
		at += i + len(literal)
	}
}

// regexFinder compiles an expression once. Files are written for Oniguruma; expr must keep to what means the same to
// regexp2 (see sameInBoth).
func regexFinder(expr string) (finder, error) {
	if err := sameInBoth(expr); err != nil {
		return nil, fmt.Errorf("regular expression %s: %w", quote(expr), err)
	}
	re, err := regexp2.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("regular expression %s: %w", quote(expr), err)
	}
	return func(s string) ([][2]int, error) {
		runes := make([]rune, 0, len(s))
		for _, r := range s {
			runes = append(runes, patternRune(r))
		}
		found, err := re.FindAllRunesIndex(runes, -1)
		if err != nil {
			return nil, fmt.Errorf("splitting %d bytes of text: %w", len(s), err)
		}
		out := make([][2]int, len(found))
		at, offset := 0, 0 // the same place in runes and in bytes
		to := func(rune int) int {
			if len(runes) == len(s) {
				return rune
			}
			for ; at < rune; at++ {
				_, n := utf8.DecodeRuneInString(s[offset:])
				offset += n
			}
			return offset
		}
		for i, m := range found {
			out[i] = [2]int{to(m[0]), to(m[1])}
		}
		return out, nil
	}, nil
}

// sameInBoth refuses what Oniguruma and regexp2 read differently, by name: a pattern that means something else would
// split words in the wrong places without a sign of it. Allowed are literals, '.', classes, groups (plain, ?:, ?i:,
// look-around), quantifiers, and the escapes \s \S \d \D \p \P \r \n \t \x{hex}, \u with four hex digits, and escaped punctuation.
func sameInBoth(expr string) error {
	inClass := false
	for i := 0; i < len(expr); i++ {
		rest := expr[i:]
		switch c := expr[i]; {
		case c == '\\':
			n, err := escapeLength(rest)
			if err != nil {
				return err
			}
			i += n - 1
		case inClass && c == ']':
			inClass = false
		case inClass && (c == '[' || strings.HasPrefix(rest, "&&")):
			return fmt.Errorf("a class inside a class or && (at byte %d) is not supported", i)
		case inClass:
		case c == '[':
			inClass = true
			if strings.HasPrefix(rest, "[^") {
				i++
			}
			if strings.HasPrefix(expr[i+1:], "]") {
				return fmt.Errorf("a class that starts with ] (at byte %d) is not supported", i)
			}
		case c == '^' || c == '$':
			return fmt.Errorf("the anchor %c (at byte %d) is not supported", c, i)
		case strings.HasPrefix(rest, "(?"):
			ok := false
			for _, group := range []string{"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!"} {
				ok = ok || strings.HasPrefix(rest, group)
			}
			if !ok {
				return fmt.Errorf("the group %q (at byte %d) is not supported", clip([]byte(rest[:min(4, len(rest))])), i)
			}
			if body, _, _ := strings.Cut(rest, ")"); strings.HasPrefix(rest, "(?i:") {
				for _, folded := range []string{"ss", "st", "ff", "fi", "fl"} {
					if strings.Contains(strings.ToLower(body), folded) {
						return fmt.Errorf("the group %s) is not supported: without case, %s is also one character", clip([]byte(body)), folded)
					}
				}
			}
			i++
		case (c == '+' || c == '*' || c == '?' || c == '}') && strings.HasPrefix(expr[i+1:], "+"):
			return fmt.Errorf("the possessive quantifier %q (at byte %d) is not supported", expr[i:i+2], i)
		}
	}
	return nil
}

// escapeLength returns the length of the escape that s starts with.
func escapeLength(s string) (int, error) {
	if len(s) < 2 {
		return 0, fmt.Errorf("it ends in a backslash")
	}
	closed := func() (string, int) { // the text between { and }
		if i := strings.IndexByte(s, '}'); len(s) > 2 && s[2] == '{' && i > 0 {
			return s[3:i], i + 1
		}
		return "", 0
	}
	switch c := s[1]; {
	case c == 'p' || c == 'P':
		name, n := closed()
		_, category := unicode.Categories[name]
		_, script := unicode.Scripts[name]
		if !category && !script {
			return 0, fmt.Errorf("the property %s is not supported", quote(s[:max(n, 2)]))
		}
		return n, nil
	case c == 'x':
		if _, n := closed(); n > 0 {
			return n, nil
		}
	case c == 'u':
		return 2, nil
	case strings.IndexByte("sSdDrnt", c) >= 0:
		return 2, nil
	case c < utf8.RuneSelf && !unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c)):
		return 2, nil
	}
	return 0, fmt.Errorf("the escape %q is not supported", clip([]byte(s[:2])))
}
