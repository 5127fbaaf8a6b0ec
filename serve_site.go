//go:build !js

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// contentSecurityPolicy lets the page load only what this server gives it, compile WebAssembly, and nothing inline.
// Model output cannot leak a chat through a picture's address, because pictures come from here alone.
const contentSecurityPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; " +
	"style-src 'self'; img-src 'self' data: blob:; worker-src 'self'; frame-src 'self'; frame-ancestors 'self'; " +
	"base-uri 'none'; form-action 'none'"

// contentTypes by file extension. The machine's own table is not asked: it differs from machine to machine, and a
// browser refuses to stream WebAssembly or to run scripts under a wrong type.
var contentTypes = map[string]string{
	".html":        "text/html; charset=utf-8",
	".css":         "text/css; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".wasm":        "application/wasm",
	".json":        "application/json",
	".webmanifest": "application/manifest+json",
	".svg":         "image/svg+xml",
	".png":         "image/png",
	".ico":         "image/x-icon",
	".txt":         "text/plain; charset=utf-8",
	".md":          "text/plain; charset=utf-8",
	".jinja":       "text/plain; charset=utf-8",
	".wgsl":        "text/plain; charset=utf-8",
}

// site serves one folder at / and the demo models at /demo/.
type site struct {
	files, demo *os.Root // demo is nil where files has its own demo folder, or there is none
	isolate     bool
	live        *reloader // nil: serve as it is
}

// newSite opens dir, and demoDir for /demo/ unless dir has a demo folder itself. Both are read through os.Root, so
// that neither a path nor a symbolic link leads out of them.
func newSite(dir, demoDir string, isolate bool, live *reloader) (*site, error) {
	files, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot serve %s: %w (run this from the repository's root)", dir, err)
	}
	s := &site{files: files, isolate: isolate, live: live}
	if _, err := files.Stat("demo"); errors.Is(err, fs.ErrNotExist) {
		s.demo, err = os.OpenRoot(demoDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = files.Close()
			return nil, err
		}
	}
	return s, nil
}

func (s *site) Close() error {
	if s.demo != nil {
		_ = s.demo.Close()
	}
	return s.files.Close()
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	if s.isolate {
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Embedder-Policy", "require-corp")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if s.live != nil && s.live.serve(w, r) {
		return
	}
	name, ok := localName(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	root := s.files
	if rest, isDemo := strings.CutPrefix(name, "demo/"); isDemo && s.demo != nil {
		root, name = s.demo, rest
	}
	if s.live != nil && path.Ext(name) == ".html" {
		s.serveLivePage(w, r, root, name)
		return
	}
	serveFile(w, r, root, name)
}

// localName turns a request path into a file name below the root. It refuses what could mean another place on some
// system, and hidden files.
func localName(urlPath string) (string, bool) {
	if strings.ContainsAny(urlPath, "\\\x00:") {
		return "", false
	}
	for element := range strings.SplitSeq(urlPath, "/") {
		if strings.HasPrefix(element, ".") {
			return "", false
		}
	}
	if urlPath == "/" || urlPath == "" {
		return "index.html", true
	}
	if strings.HasSuffix(urlPath, "/") {
		return "", false // folders are not listed
	}
	return strings.TrimPrefix(path.Clean("/"+urlPath), "/"), true
}

// serveFile answers with root's file name, or its precompressed neighbour name.br or name.gz where the browser takes
// it. A byte range is always cut from the plain file.
func serveFile(w http.ResponseWriter, r *http.Request, root *os.Root, name string) {
	file, info, err := openFile(root, name)
	if err != nil {
		notFound(w, r, err)
		return
	}
	defer file.Close()

	header := w.Header()
	header.Set("Content-Type", contentType(name))
	header.Set("Cache-Control", "no-cache") // kept, but asked about each time by ETag
	header.Add("Vary", "Accept-Encoding")
	etag := entityTag(info)
	if r.Header.Get("Range") == "" {
		for _, encoding := range acceptedEncodings(r.Header.Get("Accept-Encoding")) {
			packed, packedInfo, err := openFile(root, name+encoding.extension)
			if err != nil {
				continue
			}
			defer packed.Close()
			if packedInfo.ModTime().Before(info.ModTime()) {
				continue // left over from an earlier build
			}
			file, info, etag = packed, packedInfo, etag+encoding.extension
			header.Set("Content-Encoding", encoding.name)
			header.Set("Content-Length", strconv.FormatInt(packedInfo.Size(), 10))
			break
		}
	}
	header.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, name, info.ModTime(), file)
}

func openFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func notFound(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, fs.ErrPermission) {
		http.Error(w, "403 forbidden", http.StatusForbidden)
		return
	}
	http.NotFound(w, r) // also what lies outside the root: os.Root's refusal is no business of the client's
}

func contentType(name string) string {
	if t, ok := contentTypes[path.Ext(name)]; ok {
		return t
	}
	return "application/octet-stream" // model files; never guessed from the bytes
}

// entityTag names a version of a file by its size and time of change.
func entityTag(info fs.FileInfo) string {
	return strconv.FormatInt(info.Size(), 36) + "-" + strconv.FormatInt(info.ModTime().UnixNano(), 36)
}

type encoding struct{ name, extension string }

// acceptedEncodings lists the encodings of ours that an Accept-Encoding header takes, the smaller first.
func acceptedEncodings(header string) []encoding {
	accepted := map[string]bool{}
	for item := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		quality := 1.0
		if value, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			if q, err := strconv.ParseFloat(value, 64); err == nil {
				quality = q
			}
		}
		accepted[strings.ToLower(strings.TrimSpace(name))] = quality > 0
	}
	var list []encoding
	for _, e := range []encoding{{"br", ".br"}, {"gzip", ".gz"}} {
		if yes, named := accepted[e.name]; yes || !named && accepted["*"] {
			list = append(list, e)
		}
	}
	return list
}

// serveLivePage answers with an HTML page that also loads the reload script.
func (s *site) serveLivePage(w http.ResponseWriter, r *http.Request, root *os.Root, name string) {
	file, _, err := openFile(root, name)
	if err != nil {
		notFound(w, r, err)
		return
	}
	defer file.Close()
	page, err := io.ReadAll(file)
	if err != nil {
		notFound(w, r, err)
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(withReloadScript(page)))
}

// withReloadScript puts the reload script first in the head, so that it works on a page whose own scripts fail.
func withReloadScript(page []byte) []byte {
	tag := []byte(`<script src="` + reloadScriptPath + `"></script>`)
	at := bytes.Index(page, []byte("<head>"))
	if at < 0 {
		return append(tag, page...)
	}
	at += len("<head>")
	return bytes.Join([][]byte{page[:at], tag, page[at:]}, nil)
}
