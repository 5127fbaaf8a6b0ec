//go:build !js

package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed host
var host embed.FS

// program environment: wasm_exec.js has 8 KiB for arguments and variables together, which a whole shell environment
// can exceed.
var passed = regexp.MustCompile(`^((FLINT_|REQUIRE_|UPDATE_|GO)\w*|CI|HOME|PATH|PWD|TMPDIR|TZ|LANG)$`)

// server gives the worker its program and files, and takes its output and exit code.
type server struct {
	http    *http.Server
	url     string
	readers []string // absolute folders that may be read
	exit    chan int
	failed  chan string
}

func newServer(program string, argv []string) (*server, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	root, err := repositoryRoot(cwd)
	if err != nil {
		return nil, err
	}
	output, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	env := map[string]string{}
	readers := []string{root, filepath.Join(root, "..", "shared")}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if !passed.MatchString(name) {
			continue
		}
		env[name] = value
		if folder, err := filepath.Abs(value); err == nil && value != "" && strings.HasPrefix(name, "FLINT_") {
			readers = append(readers, folder)
		}
	}
	config, err := json.Marshal(map[string]any{"argv": argv, "env": env, "cwd": cwd})
	if err != nil {
		return nil, err
	}

	s := &server{readers: readers, exit: make(chan int, 1), failed: make(chan string, 8)}
	pages, err := fs.Sub(host, "host")
	if err != nil {
		return nil, err
	}
	file := func(path, contentType string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			http.ServeFile(w, r, path)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(pages))
	mux.HandleFunc("GET /program.wasm", file(program, "application/wasm"))
	mux.HandleFunc("GET /wasm_exec.js", file(filepath.Join(strings.TrimSpace(string(output)), "lib", "wasm", "wasm_exec.js"), "text/javascript"))
	mux.HandleFunc("GET /replay.js", file(filepath.Join(root, "web", "replay.js"), "text/javascript"))
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(config) })
	mux.HandleFunc("POST /write", s.write)
	mux.HandleFunc("POST /exit", s.ended)
	mux.HandleFunc("POST /failed", func(_ http.ResponseWriter, r *http.Request) {
		message, _ := io.ReadAll(r.Body)
		s.failed <- string(message)
	})
	mux.HandleFunc("GET /stat", s.stat)
	mux.HandleFunc("GET /list", s.list)
	mux.HandleFunc("GET /read", s.read)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String() + "/"
	s.http = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Isolation gives performance.now() its fine steps.
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

func (s *server) Close() { _ = s.http.Close() }

// repositoryRoot walks up to the folder that holds go.mod.
func repositoryRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in %s or above", dir)
		}
	}
}

func (s *server) write(w http.ResponseWriter, r *http.Request) {
	out := os.Stdout
	if r.FormValue("fd") == "2" {
		out = os.Stderr
	}
	if _, err := io.Copy(out, r.Body); err != nil {
		refuse(w, err)
	}
}

func (s *server) ended(_ http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil {
		s.failed <- fmt.Sprintf("exit code %q", r.FormValue("code"))
		return
	}
	s.exit <- code
}

// allowed returns the path a request asks for, if it lies in a folder that may be read.
func (s *server) allowed(r *http.Request) (string, error) {
	path := filepath.Clean(r.FormValue("path"))
	for _, folder := range s.readers {
		if path == folder || strings.HasPrefix(path, folder+string(filepath.Separator)) {
			return path, nil
		}
	}
	return "", fs.ErrPermission
}

// refuse answers with the code that Node's fs would give its error.
func refuse(w http.ResponseWriter, err error) {
	code := "EIO"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = "ENOENT"
	case errors.Is(err, fs.ErrPermission):
		code = "EACCES"
	}
	http.Error(w, code, http.StatusNotFound)
}

func (s *server) stat(w http.ResponseWriter, r *http.Request) {
	path, err := s.allowed(r)
	if err != nil {
		refuse(w, err)
		return
	}
	info, err := os.Stat(path)
	if err != nil {
		refuse(w, err)
		return
	}
	const fileType, folderType = 0o100000, 0o040000 // as in Unix's st_mode
	mode := fileType | int(info.Mode().Perm())
	if info.IsDir() {
		mode = folderType | int(info.Mode().Perm())
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"mode": mode, "size": info.Size(), "mtimeMs": info.ModTime().UnixMilli(), "directory": info.IsDir()})
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	path, err := s.allowed(r)
	if err != nil {
		refuse(w, err)
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		refuse(w, err)
		return
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	_ = json.NewEncoder(w).Encode(names)
}

// read answers with at most length bytes from offset: fewer at the end of the file.
func (s *server) read(w http.ResponseWriter, r *http.Request) {
	path, err := s.allowed(r)
	if err != nil {
		refuse(w, err)
		return
	}
	offset, err1 := strconv.ParseInt(r.FormValue("offset"), 10, 64)
	length, err2 := strconv.ParseInt(r.FormValue("length"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		refuse(w, err)
		return
	}
	file, err := os.Open(path)
	if err != nil {
		refuse(w, err)
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.Copy(w, io.NewSectionReader(file, offset, length))
}
