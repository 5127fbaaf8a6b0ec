//go:build !js

// Package chrome starts a headless Chromium that has WebGPU, for tests.
package chrome

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/launcher"
)

// Browser is a running Chromium with a profile of its own.
type Browser struct {
	*rod.Browser
	launcher *launcher.Launcher
	exited   chan struct{}
}

// Path returns the browser to start: FLINT_CHROMIUM, or the first on PATH. It never downloads one.
func Path() (string, error) {
	if path := os.Getenv("FLINT_CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no chromium on PATH: run tools/setup.sh chrome, or set FLINT_CHROMIUM to the browser's path")
}

// Launch starts Chromium. Close it to leave no process and no profile behind.
func Launch() (*Browser, error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "flint-chrome-")
	if err != nil {
		return nil, err
	}
	var log bytes.Buffer
	l := launcher.New().Bin(path).UserDataDir(profile).
		Leakless(false). // our processes end their browsers themselves, also when a signal ends them
		HeadlessNew(true).
		Logger(&log).
		// Without this there is no adapter: Linux has WebGPU behind a flag, software adapters too.
		Set("enable-unsafe-webgpu").
		Set("disable-component-update").
		Set("disable-quic")
	if os.Geteuid() == 0 {
		l.NoSandbox(true) // Chromium refuses to start as root with its sandbox
	}
	b := &Browser{launcher: l, exited: make(chan struct{})}
	address, err := l.Launch()
	if err == nil {
		go func() {
			l.Cleanup() // waits for the end, removes the profile
			close(b.exited)
		}()
		b.Browser = rod.New().ControlURL(address)
		if err = b.Connect(); err != nil {
			b.Kill()
		}
	}
	if err != nil {
		_ = os.RemoveAll(profile)
		return nil, fmt.Errorf("cannot start %s: %w\n%s", path, err, log.Bytes())
	}
	return b, nil
}

// Exited is closed when the browser's process has ended.
func (b *Browser) Exited() <-chan struct{} { return b.exited }

// Close ends the browser, by force after a while, and waits for that.
func (b *Browser) Close() {
	go func() { _ = b.Browser.Close() }()
	select {
	case <-b.exited:
	case <-time.After(3 * time.Second):
		b.Kill()
	}
}

// Kill ends the browser by force.
func (b *Browser) Kill() {
	b.launcher.Kill()
	<-b.exited
}
