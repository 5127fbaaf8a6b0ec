package main

import "flint/wasm/wire"

// Every word that the page says, apart from the few that web/boot.js says before this program runs.

// labels are the texts of elements by id; a test compares the ids with web/index.html.
var labels = map[string]string{
	"model-name":        "",
	"new-chat":          "New chat",
	"side-toggle":       "Settings",
	"welcome-title":     "A language model, running on your own GPU",
	"welcome-text":      "It is computed in this page by WebGPU. What you type stays on this device, and once the model is loaded no connection is needed.",
	"welcome-demo":      "The demo model is tiny: it tells short stories and makes small talk, and is often wrong about facts.",
	"latest":            "Jump to the latest",
	"prompt-label":      "Your message",
	"prompt-help":       "Enter sends, Shift+Enter starts a new line, Escape stops the answer.",
	"send":              "Send",
	"stop":              "Stop",
	"settings-title":    "Settings",
	"temperature-label": "Temperature",
	"temperature-help":  "0 always takes the most likely word; higher is more varied.",
	"seed-label":        "Seed",
	"seed-help":         "The same seed gives the same answer. Empty: a new one each time.",
	"speed-title":       "Speed",
	"gpu-title":         "GPU",
	"gpu":               "Not opened yet",
}

// attributes are texts that are not content, by id.
var attributes = map[string]map[string]string{
	"transcript":  {"aria-label": "Conversation"},
	"side":        {"aria-label": "Settings and speed"},
	"prompt":      {"placeholder": "Write a message"},
	"seed":        {"placeholder": "random"},
	"panel":       {"title": "Graph of tokens per second, step by step"},
	"suggestions": {"aria-label": "Suggestions"},
	"load-bar":    {"aria-label": "Loading"},
}

// suggestions are prompts on which the demo model shows its best side.
var suggestions = []string{
	"Tell me a story about a fox and a lantern.",
	"Hello! How are you today?",
	"Tell me a short story about a girl who finds a map.",
}

const (
	demoName = "Flint demo"

	textYou   = "You"
	textModel = "Flint"

	statusStarting  = "Starting the engine…"
	statusLoading   = "Loading…"
	statusReady     = "Ready"
	statusAnswering = "Answering…"
	statusStopping  = "Stopping…"
	statusBroken    = "Not running"

	textProgressOf = "%s: %s of %s"
	textProgress   = "%s: %s"
	textTokens     = "%d tokens"
	textRate       = "%s tokens/s"
	textFirstToken = "first word after %s"
	textSeed       = "seed %d"
	textContext    = "context %d of %d"
	textUnnamedGPU = "A GPU that the browser does not name"
	textLoadedIn   = "%s · loaded in %s · %s on the GPU"
	textNoAnswer   = "Stopped before the first word."
	textFailed     = "No answer: %s"

	textBadTemperature = "The temperature must be a number, 0 or more."
	textBadSeed        = "The seed must be a whole number from 0 to 9007199254740991, or empty."

	actionRetry   = "Try again"
	actionRestart = "Restart the engine"
	actionReload  = "Reload the page"
	actionDismiss = "Dismiss"
	textDetails   = "Details"

	titleNoWebGPU    = "This browser offers no WebGPU"
	titleSoftware    = "No GPU: computing slowly, on the processor"
	nextSoftware     = "The browser gave this page a software adapter. "
	titleEngineDied  = "The engine stopped"
	nextEngineDied   = "The conversation is kept. Restart the engine to go on; if it happens again, reload the page."
	titleEngineHung  = "The engine does not answer"
	textEngineHung   = "No sign of life for %s."
	titleNotStopping = "The engine does not stop"
	nextNotStopping  = "It may still end by itself. Or restart it: the conversation is kept, without this answer."
	titlePageFailed  = "The page made a mistake"
	nextPageFailed   = "Reload the page. The details below help to find the cause."
	textBadEvent     = "The worker sent a message that this page cannot read; an old file may be in the browser's cache."
)

// phaseTexts name the phases of a load, and prefill.
var phaseTexts = map[wire.Phase]string{
	wire.Download:  "Downloading the model",
	wire.Tokenizer: "Reading the vocabulary",
	wire.Kernels:   "Compiling for your GPU",
	wire.Weights:   "Moving the model to the GPU",
	wire.Prefill:   "Reading the conversation",
}

// reasonTexts say why an answer ended if it did not end by itself.
var reasonTexts = map[wire.Reason]string{
	wire.LengthReached:  "stopped at the length limit",
	wire.Cancelled:      "stopped by you",
	wire.ContextReached: "the context is full: start a new chat",
}

// advice says what happened and what to do next.
type advice struct{ title, next string }

// advices has one for every error code.
var advices = map[wire.Code]advice{
	wire.NoWebGPU:        {titleNoWebGPU, ""}, // the next step depends on the browser: see gpuHint
	wire.NoAdapter:       {"No GPU was found", ""},
	wire.DeviceLost:      {"The GPU went away", "A driver update, sleep or an overlong computation can do that. The conversation is kept: restart the engine to go on."},
	wire.OutOfMemory:     {"The GPU has too little free memory", "Close other tabs and programs that use the GPU, then try again; or choose a smaller model."},
	wire.BadModel:        {"The model cannot be used", "Check that its folder is complete and undamaged: config.json, tokenizer.json and the safetensors files."},
	wire.FileChanged:     {"A model file changed", "Choose the model's files again."},
	wire.Network:         {"The model could not be fetched", "Check that the server is running and the connection works, then try again."},
	wire.ContextOverflow: {"The conversation has become too long for this model", "Start a new chat, or shorten your message."},
	wire.NoModel:         {"No model is loaded", "Load a model first."},
	wire.CancelledLoad:   {"Loading was cancelled", "Load the model again when you need it."},
	wire.BadRequest:      {"The engine did not accept the request", "The line above says why. If it makes no sense, reload the page: its parts may be of different versions."},
	wire.Internal:        {"The engine made a mistake", "Try again; if it happens again, restart the engine."},
}

// Hints about WebGPU, chosen by gpuHint.
const (
	hintInsecure    = "WebGPU works only on pages that come over https or from localhost. Open this page at such an address."
	hintChromeLinux = "In Chrome on Linux, set chrome://flags/#enable-unsafe-webgpu and chrome://flags/#enable-vulkan to Enabled and restart the browser; chrome://gpu shows the result."
	hintChrome      = "Update the browser (version 113 or later), switch on “Use graphics acceleration when available” in its system settings and restart it; chrome://gpu says what is missing."
	hintAndroid     = "On Android this needs Chrome 121 or later and Android 12 or later, on a GPU that Chrome supports."
	hintFirefox     = "Firefox offers WebGPU from version 141 on Windows and 145 on macOS; elsewhere set dom.webgpu.enabled to true in about:config and restart. Otherwise use Chrome or Edge."
	hintSafari      = "Safari offers WebGPU from version 26 (macOS 26, iOS 26, iPadOS 26). On older systems use Chrome or Edge on a Mac."
	hintOther       = "Use a current Chrome, Edge, Safari or Firefox with graphics acceleration switched on."
)
