//go:build !js

// Command chromeexec runs a js/wasm Go program, `go test` binaries included, in a dedicated worker of a headless
// Chromium, and leaves with its exit code:
//
//	go build -o .build/chromeexec ./wasm/e2e/chromeexec
//	GOOS=js GOARCH=wasm go test -exec="$PWD/.build/chromeexec" ./model
//
// The program can read (not write) files of the repository and of the folders that FLINT_SHARED, FLINT_REFERENCE and
// other FLINT_ variables name, by the paths they have outside. web/replay.js is loaded before it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-rod/rod/lib/proto"

	"flint/wasm/e2e/chrome"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: chromeexec PROGRAM.wasm [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "chromeexec:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(program string, argv []string) (int, error) {
	// go test ends a program that outlasts its time by SIGQUIT: the browser must go with us.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)

	server, err := newServer(program, argv)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	browser, err := chrome.Launch()
	if err != nil {
		return 0, err
	}
	defer browser.Close()

	page, err := browser.Page(proto.TargetCreateTarget{})
	if err != nil {
		return 0, fmt.Errorf("open a page: %w", err)
	}
	crashed := make(chan struct{})
	go page.EachEvent(func(*proto.InspectorTargetCrashed) bool {
		close(crashed)
		return true
	})()
	if err := page.Navigate(server.url); err != nil {
		return 0, fmt.Errorf("open %s: %w", server.url, err)
	}

	select {
	case code := <-server.exit:
		return code, nil
	case message := <-server.failed:
		return 0, fmt.Errorf("the worker failed: %s", message)
	case <-crashed:
		return 0, fmt.Errorf("the page crashed (out of memory, or a fault of the browser)")
	case <-browser.Exited():
		return 0, fmt.Errorf("the browser ended before the program")
	case s := <-signals:
		return 0, fmt.Errorf("ended by %v", s)
	}
}
