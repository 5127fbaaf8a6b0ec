// Command page is the chat page: it owns the conversation and everything the user sees, and asks the engine's worker
// for answers. It links neither the engine nor the panel.
//
// What the user or the model wrote reaches the document only as the content of text nodes, never as HTML. Nothing on
// the way of a token waits for an animation frame, which a hidden tab does not get.
package main

import (
	"strings"

	"flint/wasm/wire"
)

// conversation is what has been said. The engine gets all of it with each request, so that a restarted engine can go
// on where the last one died.
type conversation struct {
	turns   []wire.Turn
	current wire.ID // the request being answered; 0 if none
	asked   string
	answer  strings.Builder
}

// ask starts a turn and returns the request for it.
func (c *conversation) ask(id wire.ID, text string, sampling wire.Sampling) wire.Chat {
	c.current, c.asked = id, text
	c.answer.Reset()
	messages := append(c.turns[:len(c.turns):len(c.turns)], wire.Turn{Role: wire.User, Content: text})
	return wire.Chat{ID: id, Messages: messages, Sampling: sampling}
}

// is reports whether facts about this request are still of interest. Those of a conversation that the user has left
// arrive late and must not end up in the next one.
func (c *conversation) is(id wire.ID) bool { return id != 0 && id == c.current }

// add appends to the answer.
func (c *conversation) add(text string) { c.answer.WriteString(text) }

// settle ends the turn and keeps it, and returns the answer. A turn stopped before its first word is dropped: the model
// would take the empty answer for its own style.
func (c *conversation) settle() string {
	answer := c.answer.String()
	if answer != "" {
		c.turns = append(c.turns, wire.Turn{Role: wire.User, Content: c.asked}, wire.Turn{Role: wire.Assistant, Content: answer})
	}
	c.current = 0
	return answer
}

// abandon ends the turn without keeping it, and returns what was asked, to be asked again.
func (c *conversation) abandon() string {
	c.current = 0
	return c.asked
}

// clear forgets everything.
func (c *conversation) clear() { *c = conversation{} }
