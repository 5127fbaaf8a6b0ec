// Package wire defines every message between the page, the engine's worker and the panel.
//
// # Transport
//
// A message is one JSON object sent as a string through postMessage. Its "kind" names it; the other fields are those
// of the Go struct of that kind. Strings are chosen over structured clones because one decoder then serves every
// sender, and because they can be recorded and replayed in tests. A `load` of picked files is the one exception: File
// objects cannot travel inside JSON, so it is sent as an object
//
//	{message: <the JSON string>, files: [File, ...]}
//
// by structured clone, which copies handles and no file content. Unknown kinds, unknown fields, missing required
// fields and values out of range are errors: a misspelt "temprature" must not silently become the default.
//
// # From page to worker: verbs
//
//	load    load the model found under url, or in the files sent alongside, in place of the current one
//	chat    answer the conversation
//	cancel  end the load or chat with this id within one step
//	reset   end whatever runs; the next chat starts a new conversation
//	ping    sent every few seconds; the worker answers each at once with a pong
//
// # From worker to page: facts
//
//	hello     the GPU device is open: which adapter it is (once per device, before the model's weights move)
//	progress  how far a load or a prefill has come
//	loaded    the model is ready; ends a load
//	token     text to append to the answer
//	step      one step of decoding took this long
//	done      the answer is complete; ends a chat
//	error     the request failed, the worker lives on; ends a load or chat
//	fatal     the worker is dead or must be replaced; the page starts another one
//	pong      the answer to a ping
//
// Every load and chat has an id, chosen by the page, never 0 and never used twice by one page; all facts about it
// carry that id, so that a late fact of an abandoned request can be told from one of the current request. The worker
// runs one load or chat at a time, in the order in which they came. Each gets exactly one of loaded, done or error,
// unless fatal comes first; a cancelled load ends with the error code "cancelled", a cancelled chat with done and
// reason "cancelled".
//
// # From page to panel
//
// The page passes each step on unchanged, and sends reset when the graph should start anew. Nothing comes back.
package wire

import "errors"

// A Message is a Request or an Event.
type Message interface {
	// kind is the value of "kind" in JSON.
	kind() string
	// check says which field is missing or out of range.
	check() error
}

// A Request goes from page to worker: Load, Chat, Cancel, Reset, Ping.
type Request interface {
	Message
	request()
}

// An Event goes from worker to page: Hello, Progress, Loaded, Token, Step, Done, Error, Fatal, Pong.
type Event interface {
	Message
	event()
}

// ID ties facts to the load or chat they are about; 0 means no request.
type ID uint32

// Load asks the worker to load a model folder in the Hugging Face layout.
type Load struct {
	ID ID `json:"id"`
	// URL is the folder's address relative to the page, ending in a slash. Empty if Files is set.
	URL string `json:"url,omitempty"`
	// Files is the number of File objects sent alongside. 0 if URL is set.
	Files int `json:"files,omitempty"`
	// Name is what to call the model in messages, such as the folder's name. May be empty.
	Name string `json:"name,omitempty"`
	// ContextLength caps prompt plus answer, in tokens; it fixes the size of the KV cache. 0 leaves it to the engine.
	ContextLength int `json:"contextLength,omitempty"`
}

// Role says who speaks.
type Role string

const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Turn is one message of a conversation.
type Turn struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

// Chat asks for the next answer. It carries the whole conversation: the worker keeps no copy to disagree with the
// page's, and finds by itself how much of it is still in the KV cache.
type Chat struct {
	ID       ID       `json:"id"`
	Messages []Turn   `json:"messages"`
	Sampling Sampling `json:"sampling"`
}

// Sampling says how to choose tokens and when to stop. Start from Greedy or from the model's own (Loaded.Sampling): the
// zero value is not valid.
type Sampling struct {
	// Temperature divides the logits; 0 takes the most likely token.
	Temperature float64 `json:"temperature"`
	// TopK keeps the k most likely tokens; 0 keeps all.
	TopK int `json:"topK"`
	// TopP keeps the smallest set of tokens whose probability reaches it, in (0, 1]; 1 keeps all.
	TopP float64 `json:"topP"`
	// MinP drops tokens less likely than this share of the most likely one, in [0, 1); 0 keeps all.
	MinP float64 `json:"minP"`
	// RepetitionPenalty weakens the tokens of the last PenaltyWindow positions; 1 is off.
	RepetitionPenalty float64 `json:"repetitionPenalty"`
	// PenaltyWindow is in tokens.
	PenaltyWindow int `json:"penaltyWindow"`
	// Seed makes the answer repeatable; nil lets the engine draw one, which Done tells. At most MaxSeed.
	Seed *uint64 `json:"seed,omitempty"`
	// MaxTokens ends the answer with reason "length"; 0 allows what the context holds.
	MaxTokens int `json:"maxTokens"`
	// Stop ends the answer before any of these strings appears in it.
	Stop []string `json:"stop,omitempty"`
}

// MaxSeed is the largest integer that JavaScript reads from JSON without rounding it.
const MaxSeed = 1<<53 - 1

// Greedy is the sampling that always takes the most likely token, every filter off. Fields that a chat's JSON leaves
// out have these values.
func Greedy() Sampling {
	return Sampling{TopP: 1, RepetitionPenalty: 1}
}

// Cancel ends the load or chat with this id.
type Cancel struct {
	ID ID `json:"id"`
}

// Reset ends whatever runs. To the panel: forget the steps so far.
type Reset struct{}

// Ping asks the worker for a sign of life.
type Ping struct {
	N uint32 `json:"n"`
}

// Hello describes the GPU that the engine runs on.
type Hello struct {
	Adapter Adapter `json:"adapter"`
}

// Adapter is what WebGPU tells about the GPU; browsers leave most of it empty.
type Adapter struct {
	Vendor       string `json:"vendor"`
	Architecture string `json:"architecture"`
	Device       string `json:"device"`
	Description  string `json:"description"`
	// Software is true if the adapter computes on the CPU: the engine works, but slowly.
	Software bool `json:"software"`
	// Features are the optional WebGPU features in use, such as "shader-f16" and "subgroups".
	Features []string `json:"features,omitempty"`
	// Notes are sentences for the user about what this adapter cannot do or does more slowly.
	Notes []string `json:"notes,omitempty"`
}

// Phase is the part of the work that a Progress measures.
type Phase string

const (
	Download  Phase = "download"  // bytes from the server
	Tokenizer Phase = "tokenizer" // reading configuration and vocabulary; no measure
	Kernels   Phase = "kernels"   // compute pipelines compiled
	Weights   Phase = "weights"   // bytes moved to the GPU
	Prefill   Phase = "prefill"   // prompt tokens read
)

// Progress says how far one phase has come. Send at most ten a second.
type Progress struct {
	ID    ID    `json:"id"`
	Phase Phase `json:"phase"`
	Done  int64 `json:"done"`
	// Total is 0 while unknown.
	Total int64 `json:"total"`
}

// Loaded says that the model is ready.
type Loaded struct {
	ID            ID     `json:"id"`
	Name          string `json:"name"`
	Architecture  string `json:"architecture"`
	Parameters    int64  `json:"parameters"`
	ContextLength int    `json:"contextLength"`
	// GPUBytes is what the model occupies on the GPU: weights, KV cache and working buffers.
	GPUBytes int64 `json:"gpuBytes"`
	// MS is the time from the request to this message, in milliseconds.
	MS float64 `json:"ms"`
	// Sampling is what the checkpoint's generation_config.json recommends.
	Sampling Sampling `json:"sampling"`
}

// Token appends text to the answer: whole characters, of one token or of several.
type Token struct {
	ID   ID     `json:"id"`
	Text string `json:"text"`
}

// Step reports one step of decoding: one forward pass and what came of it.
type Step struct {
	ID ID `json:"id"`
	// Index counts the steps of this answer from 0.
	Index int `json:"index"`
	// Tokens is how many tokens the step added.
	Tokens int `json:"tokens"`
	// Position is the number of tokens in the context after the step.
	Position int `json:"position"`
	// MS is the time since the step before, in milliseconds.
	MS float64 `json:"ms"`
	// TokensPerSecond is Tokens over MS.
	TokensPerSecond float64 `json:"tokensPerSecond"`
}

// Reason says why an answer ended.
type Reason string

const (
	Stopped        Reason = "stop"      // the model ended it, or a stop string appeared
	LengthReached  Reason = "length"    // MaxTokens
	Cancelled      Reason = "cancelled" // Cancel or Reset
	ContextReached Reason = "context"   // the context is full
)

// Done ends a chat.
type Done struct {
	ID      ID      `json:"id"`
	Reason  Reason  `json:"reason"`
	Usage   Usage   `json:"usage"`
	Timings Timings `json:"timings"`
	// Seed is the one used, given or drawn: with it the answer can be repeated.
	Seed uint64 `json:"seed"`
}

// Usage counts tokens.
type Usage struct {
	// Prompt is the length of the rendered conversation, of which Reused tokens were still in the KV cache.
	Prompt     int `json:"prompt"`
	Reused     int `json:"reused"`
	Completion int `json:"completion"`
}

// Timings are in milliseconds. FirstToken counts from the request, Decode from the first token to the last.
type Timings struct {
	PrefillMS    float64 `json:"prefillMs"`
	DecodeMS     float64 `json:"decodeMs"`
	FirstTokenMS float64 `json:"firstTokenMs"`
	// TokensPerSecond is the decoding speed over the whole answer.
	TokensPerSecond float64 `json:"tokensPerSecond"`
}

// Code sorts errors by what the user can do about them.
type Code string

const (
	NoWebGPU        Code = "no-webgpu"        // the browser has no WebGPU, or not here
	NoAdapter       Code = "no-adapter"       // WebGPU is there but offers no usable GPU
	DeviceLost      Code = "device-lost"      // the GPU went away: driver reset, sleep, too long a step
	OutOfMemory     Code = "out-of-memory"    // the GPU has not enough memory
	BadModel        Code = "bad-model"        // files missing, damaged or of an unsupported kind
	FileChanged     Code = "file-changed"     // a file was changed, moved or deleted after it was picked
	Network         Code = "network"          // a file could not be fetched
	ContextOverflow Code = "context-overflow" // the conversation does not fit the context
	NoModel         Code = "no-model"         // chat before load
	CancelledLoad   Code = "cancelled"        // a load was cancelled
	BadRequest      Code = "bad-request"      // the message could not be understood
	Internal        Code = "internal"         // a defect of the engine
)

// CodeOf returns the code that err, or an error it wraps, carries in a method Code() Code; Internal if none does.
func CodeOf(err error) Code {
	var coded interface{ Code() Code }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return Internal
}

// WithCode returns an error with err's text that CodeOf sorts under code.
func WithCode(code Code, err error) error { return coded{err, code} }

type coded struct {
	error
	code Code
}

func (c coded) Code() Code    { return c.code }
func (c coded) Unwrap() error { return c.error }

// Error ends the request with this id, or answers a message that could not be read (ID 0).
type Error struct {
	ID   ID   `json:"id"`
	Code Code `json:"code"`
	// Message says what was expected, what was found and where.
	Message string `json:"message"`
}

// Fatal says that the worker cannot go on.
type Fatal struct {
	Message string `json:"message"`
	// Stack is for the developer; may be empty.
	Stack string `json:"stack,omitempty"`
}

// Pong answers the Ping with the same N.
type Pong struct {
	N uint32 `json:"n"`
}

func (Load) kind() string     { return "load" }
func (Chat) kind() string     { return "chat" }
func (Cancel) kind() string   { return "cancel" }
func (Reset) kind() string    { return "reset" }
func (Ping) kind() string     { return "ping" }
func (Hello) kind() string    { return "hello" }
func (Progress) kind() string { return "progress" }
func (Loaded) kind() string   { return "loaded" }
func (Token) kind() string    { return "token" }
func (Step) kind() string     { return "step" }
func (Done) kind() string     { return "done" }
func (Error) kind() string    { return "error" }
func (Fatal) kind() string    { return "fatal" }
func (Pong) kind() string     { return "pong" }

func (Load) request()   {}
func (Chat) request()   {}
func (Cancel) request() {}
func (Reset) request()  {}
func (Ping) request()   {}

func (Hello) event()    {}
func (Progress) event() {}
func (Loaded) event()   {}
func (Token) event()    {}
func (Step) event()     {}
func (Done) event()     {}
func (Error) event()    {}
func (Fatal) event()    {}
func (Pong) event()     {}
