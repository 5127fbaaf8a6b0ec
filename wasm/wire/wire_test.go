package wire

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func seed(n uint64) *uint64 { return &n }

// messages has one of every kind, every field set to something that is not its zero value.
func messages() []Message {
	s := Sampling{
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepetitionPenalty: 1.1, PenaltyWindow: 64,
		Seed: seed(MaxSeed), MaxTokens: 256, Stop: []string{"\n\n", "</s>"},
	}
	return []Message{
		Load{ID: 1, URL: "demo/target/", Name: "demo", ContextLength: 2048},
		Load{ID: 1, Files: 6, Name: "picked", ContextLength: 512},
		Chat{ID: 2, Messages: []Turn{{System, "Be brief."}, {User, "Grüße \"&<b>\u2028\x00 🦊"}, {Assistant, ""}}, Sampling: s},
		Cancel{ID: 3},
		Reset{},
		Ping{N: 4},
		Hello{Adapter: Adapter{"nvidia", "hopper", "d", "NVIDIA", true, []string{"subgroups"}, []string{"Note."}}},
		Progress{ID: 5, Phase: Weights, Done: 1 << 40, Total: 1 << 41},
		Loaded{ID: 6, Name: "n", Architecture: "LlamaForCausalLM", Parameters: 13_637_888, ContextLength: 2048, GPUBytes: 1 << 33, MS: 12.5, Sampling: s},
		Token{ID: 7, Text: "äö"},
		Step{ID: 8, Index: 1, Tokens: 2, Position: 3, MS: 4.25, TokensPerSecond: 470.5},
		Done{ID: 9, Reason: Cancelled, Usage: Usage{10, 4, 6}, Timings: Timings{1.5, 2.5, 3.5, 4.5}, Seed: 77},
		Error{ID: 10, Code: OutOfMemory, Message: "lm_head: need 2 GiB"},
		Fatal{Message: "panic", Stack: "goroutine 1"},
		Pong{N: 11},
	}
}

func TestEveryMessageSurvivesTheRoundTrip(t *testing.T) {
	for _, m := range messages() {
		text, err := Encode(m)
		if err != nil {
			t.Errorf("%s: %v", m.kind(), err)
			continue
		}
		if want := `{"kind":"` + m.kind() + `"`; !strings.HasPrefix(text, want) {
			t.Errorf("%s: encoded as %s, want it to begin with %s", m.kind(), text, want)
		}
		got, err := Decode(text)
		if err != nil {
			t.Errorf("%s: %v", m.kind(), err)
		} else if !reflect.DeepEqual(got, m) {
			t.Errorf("%s: came back as %+v, want %+v", m.kind(), got, m)
		}
	}
}

// TestTheSamplesSetEveryField keeps a field added later from escaping the round trip.
func TestTheSamplesSetEveryField(t *testing.T) {
	exempt := map[string]bool{"Load.URL": true, "Load.Files": true} // one excludes the other; both occur
	for _, m := range messages() {
		v := reflect.ValueOf(m)
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			if v.Field(i).IsZero() && !exempt[name] {
				t.Errorf("%s is zero in the sample", name)
			}
		}
	}
}

func TestEachDirectionRefusesTheOther(t *testing.T) {
	for _, m := range messages() {
		text, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		_, isRequest := m.(Request)
		_, isEvent := m.(Event)
		if isRequest == isEvent {
			t.Errorf("%s must go one way: request %v, event %v", m.kind(), isRequest, isEvent)
		}
		if _, err := DecodeRequest(text); (err == nil) != isRequest {
			t.Errorf("DecodeRequest(%s): %v", m.kind(), err)
		}
		if _, err := DecodeEvent(text); (err == nil) != isEvent {
			t.Errorf("DecodeEvent(%s): %v", m.kind(), err)
		}
	}
}

func TestMalformedMessagesAreErrors(t *testing.T) {
	chat := func(sampling string) string {
		return `{"kind":"chat","id":1,"messages":[{"role":"user","content":"x"}],"sampling":` + sampling + `}`
	}
	for _, c := range []struct{ text, want string }{
		{``, "not a JSON object"},
		{`null`, `no "kind"`},
		{`[]`, "not a JSON object"},
		{`"load"`, "not a JSON object"},
		{`{}`, `no "kind"`},
		{`{"kind":7}`, "not a JSON object"},
		{`{"kind":"lod"}`, `unknown kind "lod"`},
		{`{"kind":"ping"} {}`, "after top-level value"},
		{`{"kind":"ping","n":1,"m":2}`, `unknown field "m"`},
		{`{"kind":"ping","n":-1}`, "cannot unmarshal"},
		{`{"kind":"reset","id":1}`, `unknown field "id"`},
		{"{\"kind\":\"token\",\"id\":1,\"text\":\"\xff\"}", "UTF-8"},
		{`{"kind":"load","id":1}`, "either url or files"},
		{`{"kind":"load","id":1,"url":"a/","files":2}`, "either url or files"},
		{`{"kind":"load","id":1,"url":"demo"}`, "slash"},
		{`{"kind":"load","url":"demo/"}`, "id is 0"},
		{`{"kind":"load","id":1,"files":-1}`, "want a count"},
		{`{"kind":"chat","id":1,"messages":[],"sampling":{}}`, "0 messages"},
		{`{"kind":"chat","id":1,"messages":[{"role":"robot","content":""}],"sampling":{}}`, `"robot"`},
		{chat(`{"temprature":1}`), `unknown field "temprature"`},
		{chat(`{"temperature":-0.1}`), "temperature"},
		{chat(`{"topP":0}`), "topP"},
		{chat(`{"topP":1.01}`), "topP"},
		{chat(`{"minP":1}`), "minP"},
		{chat(`{"repetitionPenalty":0}`), "repetitionPenalty"},
		{chat(`{"topK":-1}`), "topK"},
		{chat(`{"maxTokens":99999999}`), "maxTokens"},
		{chat(`{"seed":9007199254740992}`), "seed"},
		{chat(`{"seed":-1}`), "cannot unmarshal"},
		{chat(`{"stop":[""]}`), "stop[0]"},
		{`{"kind":"cancel"}`, "id is 0"},
		{`{"kind":"progress","id":1,"phase":"dreaming","done":0,"total":0}`, "phase"},
		{`{"kind":"progress","id":1,"phase":"weights","done":2,"total":1}`, "done is 2 of 1"},
		{`{"kind":"done","id":1,"reason":"bored"}`, "reason"},
		{`{"kind":"error","id":1,"code":"oops","message":"x"}`, "unknown code"},
		{`{"kind":"error","id":1,"code":"internal"}`, "message is empty"},
		{`{"kind":"step","id":1,"index":-1}`, "index"},
		{`{"kind":"step","id":1,"ms":1e999}`, "cannot unmarshal"},
		{`{"kind":"fatal"}`, "message is empty"},
	} {
		m, err := Decode(c.text)
		if err == nil {
			t.Errorf("%s: decoded as %+v, want an error with %q", c.text, m, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q, want %q in it", c.text, err, c.want)
		}
	}
}

func TestFieldsThatAChatLeavesOutAreOff(t *testing.T) {
	m, err := Decode(`{"kind":"chat","id":1,"messages":[{"role":"user","content":"x"}],"sampling":{"temperature":0.5}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := Greedy()
	want.Temperature = 0.5
	if got := m.(Chat).Sampling; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFiguresThatJSONCannotHoldAreErrors(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), -1} {
		if text, err := Encode(Step{ID: 1, TokensPerSecond: v}); err == nil {
			t.Errorf("%v encoded as %s", v, text)
		}
	}
}

func TestAnOverlongMessageIsRefusedUnread(t *testing.T) {
	if _, err := Decode(strings.Repeat(" ", MaxMessage+1)); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		text, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Decode(text)
		if err != nil {
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("%q decodes to %+v, which does not encode: %v", text, m, err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("%q encodes to %q, which does not decode: %v", text, again, err)
		}
		if twice, err := Encode(back); err != nil || twice != again { // compared as text: an empty list may become none
			t.Fatalf("%q became %q, then %q (%v)", text, again, twice, err)
		}
	})
}

func BenchmarkToken(b *testing.B) {
	for b.Loop() {
		text, err := Encode(Token{ID: 1, Text: " hello"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := DecodeEvent(text); err != nil {
			b.Fatal(err)
		}
	}
}
