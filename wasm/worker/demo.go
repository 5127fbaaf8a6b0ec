package main

import "time"

// modelFiles are the files of a model folder that a load by URL asks the server for. Which of them a model must have is
// the engine's business.
var modelFiles = []string{
	"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
	"model.safetensors",
}

// every returns a function that calls f at most once per interval, but always when all is done: progress must neither
// flood the page nor stop at 97 %.
func every(interval time.Duration, now func() time.Time, f func(done, total int64)) func(done, total int64) {
	var next time.Time
	return func(done, total int64) {
		if t := now(); !t.Before(next) || (total > 0 && done == total) {
			next = t.Add(interval)
			f(done, total)
		}
	}
}
