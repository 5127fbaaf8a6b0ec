//go:build !js

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	reloadScriptPath = "/_reload.js"
	reloadEventsPath = "/_reload"
	settle           = 150 * time.Millisecond // an editor writes a file in several steps; a checkout writes many
)

//go:embed tools/reload.js
var reloadScript []byte

// buildState is what open pages are told: which build is served, and why the latest one failed.
type buildState struct {
	Build string `json:"build"` // a page showing another build reloads
	Error string `json:"error"` // the compiler's words; empty when the build is good
}

// reloader tells every open page about builds.
type reloader struct {
	mu      sync.Mutex
	state   buildState
	changed chan struct{} // closed and replaced with every new state
}

func newReloader() *reloader {
	return &reloader{changed: make(chan struct{})}
}

// publish announces a finished build; a failed one keeps the pages on the build they show.
func (l *reloader) publish(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.state.Error = err.Error()
	} else {
		l.state = buildState{Build: time.Now().Format(time.RFC3339Nano)}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *reloader) current() (buildState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

// serve answers the reload script and its stream of events; false for any other path.
func (l *reloader) serve(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case reloadScriptPath:
		w.Header().Set("Content-Type", contentType(reloadScriptPath))
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, reloadScriptPath, time.Time{}, bytes.NewReader(reloadScript))
	case reloadEventsPath:
		l.stream(w, r)
	default:
		return false
	}
	return true
}

// stream sends the state now and whenever it changes, as server-sent events, until the page goes away.
func (l *reloader) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	for {
		state, changed := l.current()
		text, err := json.Marshal(state)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// develop builds web/, and again after every change of a source, until ctx is done. It returns once the first build
// has been tried: a failing build is shown in the page and in the terminal, not returned.
func develop(ctx context.Context, root string, live *reloader) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := watchTree(watcher, root); err != nil {
		_ = watcher.Close()
		return fmt.Errorf("cannot watch the sources: %w", err)
	}
	rebuild := func() {
		_, err := build(ctx, root, true, os.Stdout)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		live.publish(err)
	}
	rebuild()
	go func() {
		defer watcher.Close()
		watch(ctx, root, watcher, rebuild)
	}()
	return nil
}

// watch calls rebuild after sources changed and then stayed unchanged for a moment.
func watch(ctx context.Context, root string, watcher *fsnotify.Watcher, rebuild func()) {
	timer := time.NewTimer(0)
	<-timer.C
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if event.Has(fsnotify.Create) {
				_ = watchTree(watcher, event.Name) // a new folder; a file or a vanished one needs nothing
			}
			if name, err := filepath.Rel(root, event.Name); err == nil && !event.Has(fsnotify.Chmod) && isSource(filepath.ToSlash(name)) {
				timer.Reset(settle)
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			fmt.Fprintln(os.Stderr, "flint: watching the sources:", err)
			timer.Reset(settle) // events may be lost: build to be sure
		case <-timer.C:
			rebuild()
		}
	}
}

// watchTree watches folder and the folders in it that can hold sources.
func watchTree(watcher *fsnotify.Watcher, folder string) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		base := entry.Name()
		if name != folder && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "dist" || base == "testdata") {
			return filepath.SkipDir
		}
		return watcher.Add(name)
	})
}

// isSource reports whether a change of the file (a slash-separated name below the root) can change the page.
func isSource(name string) bool {
	if strings.HasSuffix(name, "_test.go") || isBuilt(name) {
		return false
	}
	switch filepath.Ext(name) {
	case ".go", ".wgsl", ".mod", ".sum":
		return true
	}
	return strings.HasPrefix(name, "web/")
}
