package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"flint/model"
	"flint/model/chat"
	"flint/model/sample"
	"flint/model/tokenizer"
	"flint/wasm/wire"
)

// history says which text the decoder's tokens stand for. The next turn's prompt usually begins with it; its tokens are
// then kept as they are, because encoding the model's own words anew can split them differently and lose the cache.
type history struct {
	prompt chat.Prompt // the answer and special tokens included
	ids    []int32
}

// begins reports whether p goes on where h ends. The same text is not enough: what is a token in one may be typed in the
// other.
func (h history) begins(p chat.Prompt) bool {
	n := len(h.prompt.Text)
	if n == 0 || !strings.HasPrefix(p.Text, h.prompt.Text) {
		return false
	}
	known := p.Literal
	if i := slices.IndexFunc(known, func(s chat.Span) bool { return s.Start >= n }); i >= 0 {
		known = known[:i]
	}
	return slices.Equal(known, h.prompt.Literal)
}

// Chat answers req. Its last event is done, or error.
func (s *Session) Chat(ctx context.Context, req wire.Chat) error {
	err := s.chat(ctx, req)
	if err != nil {
		s.emit(errorEvent(req.ID, err))
	}
	return err
}

// turn is one answer in the making.
type turn struct {
	session *Session
	*loaded
	req   wire.Chat
	seed  uint64
	start time.Time
	last  time.Time // of the last step

	prompt, reused, completion int
	firstToken, prefilled      time.Duration
	steps                      int
	text                       strings.Builder // the answer with special tokens, for history
	stream                     *tokenizer.Stream
	raw                        *tokenizer.Stream
	stop                       stopStrings
}

func (s *Session) chat(ctx context.Context, req wire.Chat) error {
	l := s.loaded
	if l == nil {
		return wire.WithCode(wire.NoModel, errors.New("no model is loaded: load one, then chat"))
	}
	if err := s.device.Err(); err != nil {
		return err
	}
	t := &turn{session: s, loaded: l, req: req, start: time.Now(), stop: newStopStrings(req.Sampling.Stop)}
	t.stream, t.raw = l.tokenizer.NewStream(true), l.tokenizer.NewStream(false)
	if req.Sampling.Seed != nil {
		t.seed = *req.Sampling.Seed
	} else {
		t.seed = drawSeed()
	}
	request := model.Request{Sampling: samplingConfig(req.Sampling), Seed: t.seed, Stops: l.stops, MaxTokens: req.Sampling.MaxTokens}
	if err := request.Sampling.Validate(); err != nil {
		return wire.WithCode(wire.BadRequest, err)
	}
	prompt, ids, err := l.encode(req.Messages)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return wire.WithCode(wire.BadRequest, errors.New("the conversation renders to nothing: write a message first"))
	}
	t.prompt = len(ids)
	s.emit(wire.Progress{ID: req.ID, Phase: wire.Prefill, Total: int64(len(ids))})
	if t.reused, err = l.decoder.Prefill(ctx, ids, request); err == nil {
		err = t.answer(ctx)
		// Only now: after a prefill that failed the decoder may still hold the tokens of another text.
		prompt.Text += t.text.String() + t.raw.Flush()
		l.history = history{prompt: prompt, ids: slices.Clone(l.decoder.IDs())}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		t.done(wire.Cancelled)
		return nil
	}
	return err
}

// answer runs steps until the model, a stop string, a limit or the user ends them.
func (t *turn) answer(ctx context.Context) error {
	for {
		step, err := t.decoder.Next(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		if t.steps == 0 {
			t.firstToken, t.prefilled, t.last = now.Sub(t.start), now.Sub(t.start), now
		}
		ended := false
		for _, id := range step.Tokens {
			t.completion++
			t.text.WriteString(t.raw.Next(id))
			ended = t.stop.push(t.stream.Next(id), t.emitText) || ended
		}
		if len(step.Tokens) > 0 {
			t.report(now, len(step.Tokens))
		}
		if ended {
			t.done(wire.Stopped)
			return nil
		}
		if step.Done {
			if !t.stop.push(t.stream.Flush(), t.emitText) {
				t.stop.flush(t.emitText)
			}
			t.done(t.reason())
			return nil
		}
	}
}

// reason says why the decoder had no more tokens.
func (t *turn) reason() wire.Reason {
	ids := t.decoder.IDs()
	switch {
	case len(ids) > 0 && slices.Contains(t.stops, ids[len(ids)-1]):
		return wire.Stopped
	case t.req.Sampling.MaxTokens > 0 && t.completion >= t.req.Sampling.MaxTokens:
		return wire.LengthReached
	}
	return wire.ContextReached
}

func (t *turn) emitText(text string) { t.session.emit(wire.Token{ID: t.req.ID, Text: text}) }

func (t *turn) report(now time.Time, tokens int) {
	took := now.Sub(t.last)
	t.last = now
	step := wire.Step{ID: t.req.ID, Index: t.steps, Tokens: tokens, Position: len(t.decoder.IDs()), MS: milliseconds(took)}
	if took > 0 {
		step.TokensPerSecond = float64(tokens) / took.Seconds()
	}
	t.steps++
	t.session.emit(step)
}

func (t *turn) done(reason wire.Reason) {
	d := wire.Done{
		ID: t.req.ID, Reason: reason, Seed: t.seed,
		Usage:   wire.Usage{Prompt: t.prompt, Reused: t.reused, Completion: t.completion},
		Timings: wire.Timings{PrefillMS: milliseconds(t.prefilled), FirstTokenMS: milliseconds(t.firstToken)},
	}
	if t.completion > 1 {
		decode := t.last.Sub(t.start) - t.firstToken
		d.Timings.DecodeMS = milliseconds(decode)
		if decode > 0 {
			d.Timings.TokensPerSecond = float64(t.completion-1) / decode.Seconds()
		}
	}
	t.session.emit(d)
}

// encode renders a conversation and turns it into tokens. Text that people typed never becomes a special token.
func (l *loaded) encode(turns []wire.Turn) (chat.Prompt, []int32, error) {
	if l.template == nil {
		var parts []string
		for _, t := range turns {
			parts = append(parts, t.Content)
		}
		text := strings.Join(parts, "\n")
		ids, err := l.tokenizer.Encode(text, tokenizer.Options{AddSpecialTokens: true, Literal: []tokenizer.Span{{Start: 0, End: len(text)}}})
		return chat.Prompt{Text: text}, ids, err
	}
	messages := make([]chat.Message, len(turns))
	for i, t := range turns {
		messages[i] = chat.Message{Role: string(t.Role), Content: t.Content}
	}
	prompt, err := l.template.Render(messages, chat.Options{AddGenerationPrompt: true, Now: time.Now()}, l.special)
	if refusal := (*chat.TemplateError)(nil); errors.As(err, &refusal) && refusal.Raised {
		return prompt, nil, wire.WithCode(wire.BadRequest, err) // nothing is wrong with the model
	}
	if err != nil {
		return prompt, nil, err
	}
	if h := l.history; h.begins(prompt) {
		rest, err := l.tokens(prompt, len(h.prompt.Text))
		// In the middle of plain text no tokenizer is asked to begin: many would put a blank there.
		if err != nil || len(rest) == 0 || l.added[rest[0]] || l.added[h.ids[len(h.ids)-1]] {
			return prompt, slices.Concat(h.ids, rest), err
		}
	}
	ids, err := l.tokens(prompt, 0)
	return prompt, ids, err
}

// tokens encodes a prompt from a byte on.
func (l *loaded) tokens(prompt chat.Prompt, from int) ([]int32, error) {
	var literal []tokenizer.Span
	for _, span := range prompt.Literal {
		if span.End > from {
			literal = append(literal, tokenizer.Span{Start: max(span.Start, from) - from, End: span.End - from})
		}
	}
	return l.tokenizer.Encode(prompt.Text[from:], tokenizer.Options{Literal: literal, Inside: from > 0})
}

func samplingConfig(s wire.Sampling) sample.Config {
	return sample.Config{
		Temperature: float32(s.Temperature), TopK: s.TopK, TopP: float32(s.TopP), MinP: float32(s.MinP),
		RepetitionPenalty: float32(s.RepetitionPenalty), PenaltyWindow: s.PenaltyWindow,
	}
}

// sampling turns a checkpoint's recommendations into the page's settings.
func sampling(d chat.Defaults) wire.Sampling {
	s := wire.Greedy()
	if d.DoSample != nil && !*d.DoSample {
		return s
	}
	s.Temperature = 1
	set(&s.Temperature, d.Temperature)
	set(&s.TopP, d.TopP)
	set(&s.MinP, d.MinP)
	set(&s.TopK, d.TopK)
	set(&s.RepetitionPenalty, d.RepetitionPenalty)
	if s.RepetitionPenalty != 1 {
		s.PenaltyWindow = defaultPenaltyWindow
	}
	return s
}

// defaultPenaltyWindow serves checkpoints that recommend a penalty: the libraries they were written for look at the
// whole context.
const defaultPenaltyWindow = 1024

func set[T any](dst *T, src *T) {
	if src != nil {
		*dst = *src
	}
}

// drawSeed needs numbers that differ, not secrets: crypto/rand would add half a megabyte to the program.
func drawSeed() uint64 { return rand.Uint64() & wire.MaxSeed }
