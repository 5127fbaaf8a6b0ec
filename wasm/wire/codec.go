package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxMessage is the longest message that is decoded, in bytes. The longest honest one is a chat whose conversation
// fills a long context; a page that sends more has lost its way.
const MaxMessage = 64 << 20

// Encode renders m as JSON, its kind first. It fails if a field is missing or out of range: the sender learns of its
// mistake with a Go stack at hand, instead of the receiver without one.
func Encode(m Message) (string, error) {
	if err := m.check(); err != nil {
		return "", fmt.Errorf("wire: encode %s: %w", m.kind(), err)
	}
	body, err := json.Marshal(m)
	if err != nil { // a NaN or an infinity among the figures
		return "", fmt.Errorf("wire: encode %s: %w", m.kind(), err)
	}
	head := `{"kind":"` + m.kind() + `"`
	if string(body) == "{}" {
		return head + "}", nil
	}
	return head + "," + string(body[1:]), nil
}

// DecodeRequest reads a message that came from the page.
func DecodeRequest(text string) (Request, error) {
	m, err := Decode(text)
	if err != nil {
		return nil, err
	}
	r, ok := m.(Request)
	if !ok {
		return nil, fmt.Errorf("wire: kind %q goes from worker to page, want one of load, chat, cancel, reset, ping", m.kind())
	}
	return r, nil
}

// DecodeEvent reads a message that came from the worker.
func DecodeEvent(text string) (Event, error) {
	m, err := Decode(text)
	if err != nil {
		return nil, err
	}
	e, ok := m.(Event)
	if !ok {
		return nil, fmt.Errorf("wire: kind %q goes from page to worker, want a fact such as token or done", m.kind())
	}
	return e, nil
}

// head reads "kind" beside the fields of a message: embedding both in one struct keeps the object flat and still lets
// the decoder refuse fields that belong to neither.
type head struct {
	Kind string `json:"kind"`
}

// Decode reads a message of any kind. The result is a value of the kind's type, such as Chat, never a pointer.
func Decode(text string) (Message, error) {
	if len(text) > MaxMessage {
		return nil, fmt.Errorf("wire: message of %d bytes, want at most %d", len(text), MaxMessage)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("wire: message is not valid UTF-8")
	}
	data := []byte(text)
	var h head
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, fmt.Errorf("wire: message is not a JSON object with a kind: %w", err)
	}
	m, err := decodeKind(h.Kind, data)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("wire: decode %s: %w", h.Kind, err)
	}
	return m, nil
}

func decodeKind(kind string, data []byte) (Message, error) {
	var err error
	strict := func(into any) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err = d.Decode(into); err != nil {
			err = fmt.Errorf("wire: decode %s: %s", kind, strings.TrimPrefix(err.Error(), "json: "))
			return
		}
		if _, end := d.Token(); end != io.EOF {
			err = fmt.Errorf("wire: decode %s: more text after the object", kind)
		}
	}
	switch kind {
	case "load":
		var v struct {
			head
			Load
		}
		strict(&v)
		return v.Load, err
	case "chat":
		var v struct {
			head
			Chat
		}
		v.Chat.Sampling = Greedy()
		strict(&v)
		return v.Chat, err
	case "cancel":
		var v struct {
			head
			Cancel
		}
		strict(&v)
		return v.Cancel, err
	case "reset":
		var v struct{ head }
		strict(&v)
		return Reset{}, err
	case "ping":
		var v struct {
			head
			Ping
		}
		strict(&v)
		return v.Ping, err
	case "hello":
		var v struct {
			head
			Hello
		}
		strict(&v)
		return v.Hello, err
	case "progress":
		var v struct {
			head
			Progress
		}
		strict(&v)
		return v.Progress, err
	case "loaded":
		var v struct {
			head
			Loaded
		}
		v.Loaded.Sampling = Greedy()
		strict(&v)
		return v.Loaded, err
	case "token":
		var v struct {
			head
			Token
		}
		strict(&v)
		return v.Token, err
	case "step":
		var v struct {
			head
			Step
		}
		strict(&v)
		return v.Step, err
	case "done":
		var v struct {
			head
			Done
		}
		strict(&v)
		return v.Done, err
	case "error":
		var v struct {
			head
			Error
		}
		strict(&v)
		return v.Error, err
	case "fatal":
		var v struct {
			head
			Fatal
		}
		strict(&v)
		return v.Fatal, err
	case "pong":
		var v struct {
			head
			Pong
		}
		strict(&v)
		return v.Pong, err
	case "":
		return nil, errors.New(`wire: message has no "kind"`)
	}
	return nil, fmt.Errorf("wire: unknown kind %.40q", kind)
}
