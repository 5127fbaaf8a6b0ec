//go:build !js

// Command flint builds the page and serves it on this machine.
//
//	go run .             builds what is stale, serves web/ on http://localhost:8080, rebuilds and reloads on change
//	go run . -dir dist   serves a folder as it is
//	go run . build       builds web/: three WebAssembly programs, compressed, with their sizes (-fast: compress less)
//	go run . dist        builds web/ and copies it with the demo models to dist/
//
// It is run from the repository's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "flint:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	command := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	switch command {
	case "serve":
		addr := flags.String("addr", "localhost:8080", "`address` to listen on")
		dir := flags.String("dir", "", "serve this `folder` as it is, without building or reloading (default: web/, built and watched)")
		isolate := flags.Bool("isolate", true, "send the COOP and COEP headers (finer clocks; the page works without)")
		if err := parse(flags, args); err != nil {
			return err
		}
		return serve(ctx, *addr, *dir, *isolate)
	case "build":
		fast := flags.Bool("fast", false, "compress quickly rather than well, and do not hold the engine to its size limits")
		if err := parse(flags, args); err != nil {
			return err
		}
		_, err := build(ctx, ".", *fast, os.Stdout)
		return err
	case "dist":
		if err := parse(flags, args); err != nil {
			return err
		}
		return dist(ctx, ".", os.Stdout)
	}
	return fmt.Errorf("unknown command %q: want build, dist, or flags of the server", command)
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q", flags.Name(), flags.Arg(0))
	}
	return nil
}

// serve listens on addr until ctx is done. An empty dir means developing: web/ is built, watched and reloaded.
func serve(ctx context.Context, addr, dir string, isolate bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var live *reloader
	if dir == "" {
		dir = "web"
		live = newReloader()
	}
	site, err := newSite(dir, "demo", isolate, live)
	if err != nil {
		return err
	}
	defer site.Close()

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot listen: %w (another server there? choose another with -addr)", err)
	}
	server := &http.Server{
		Handler:           site,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends the reload streams on shutdown
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	if live != nil {
		if err := develop(ctx, ".", live); err != nil {
			_ = server.Close()
			return err
		}
	}
	// Tests start the server on port 0 and read the address from this line.
	fmt.Printf("serving %s on http://%s\n", dir, displayAddress(addr, listener.Addr()))

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	cancel()
	grace, done := context.WithTimeout(context.Background(), 3*time.Second)
	defer done()
	if err := server.Shutdown(grace); err != nil {
		return server.Close()
	}
	return nil
}

// displayAddress is the address to type into a browser: the host as asked for (localhost counts as secure, which
// WebGPU needs; other names do not without TLS) with the port that was bound.
func displayAddress(asked string, bound net.Addr) string {
	host, _, err := net.SplitHostPort(asked)
	if err != nil || host == "" {
		host = "localhost"
	}
	_, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return bound.String()
	}
	return net.JoinHostPort(host, port)
}
