package main

import "strings"

// paragraphs cuts streamed text at blank lines. Each paragraph gets an element of its own: a browser lays out an element
// anew whenever its text grows, so that an answer in a single one would cost more with every token.
type paragraphs struct {
	begun bool
	held  int // line ends at the end of what came so far: whether they end a paragraph depends on what follows
}

// piece is text to append, to a new paragraph if opens is set.
type piece struct {
	text  string
	opens bool
}

// feed takes the next text, cut anywhere, and returns what can be shown. Line ends before the first and after the last
// character are not shown.
func (p *paragraphs) feed(text string) []piece {
	var pieces []piece
	for text != "" {
		rest := strings.TrimLeft(text, "\n")
		p.held += len(text) - len(rest)
		if rest == "" {
			break
		}
		line, _, _ := strings.Cut(rest, "\n")
		switch {
		case !p.begun:
			pieces = append(pieces, piece{line, true})
		case p.held >= 2:
			pieces = append(pieces, piece{strings.Repeat("\n", p.held-2) + line, true})
		default:
			pieces = append(pieces, piece{strings.Repeat("\n", p.held) + line, false})
		}
		p.begun, p.held = true, 0
		text = rest[len(line):]
	}
	return pieces
}
