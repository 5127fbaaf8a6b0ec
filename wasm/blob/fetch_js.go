package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall/js"
	"time"

	"flint/wasm/wire"
)

// fold is how many bytes of a download are collected as chunks before they become a Blob, which the browser may keep
// outside the page's memory.
const fold = 32 << 20

// Download fetches the named files below base, a URL that ends in a slash, and returns them as a folder that needs the
// server no more. Files that the server does not have are left out; it is an error if it has none of them.
//
// progress, called as data comes in, counts decoded bytes. total is 0 until every file has answered, and then only a
// lower bound if some answers did not tell their length.
func Download(ctx context.Context, base string, names []string, progress func(done, total int64)) (*FS, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mutex sync.Mutex
		files = map[string]stored{}
		count = tally{silent: len(names), report: progress}
		wait  sync.WaitGroup
	)
	// Side by side, not one after the other: an answer whose body nobody reads yet would hold one of the browser's few
	// connections to the server.
	for _, name := range names {
		wait.Go(func() {
			s, err := download(ctx, base+name, &count)
			switch {
			case err == nil:
				mutex.Lock()
				defer mutex.Unlock()
				files[name] = s
			case !errors.Is(err, fs.ErrNotExist):
				cancel(&Error{base + name, err, wire.Network}) // only the first cause is kept
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, &Error{base, fmt.Errorf("the server has none of %s there", strings.Join(names, ", ")), wire.Network}
	}
	return newFS(files)
}

// tally adds up the progress of downloads that run side by side.
type tally struct {
	mutex       sync.Mutex
	silent      int // files that have not answered yet
	done, total int64
	report      func(done, total int64)
}

// add counts one more answer (0 or 1), and bytes expected and received.
func (t *tally) add(answers int, expected, received int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.silent -= answers
	t.total += expected
	t.done += received
	if t.silent > 0 {
		t.report(t.done, 0)
		return
	}
	t.report(t.done, t.total)
}

// download fetches one file whole. fs.ErrNotExist means that the server has no such file.
func download(ctx context.Context, url string, count *tally) (stored, error) {
	response, err := fetch(ctx, url, "")
	if err != nil {
		return stored{}, err
	}
	defer response.stop()
	if response.status == 404 || response.status == 410 {
		count.add(1, 0, 0)
		return stored{}, fs.ErrNotExist
	}
	if response.status != 200 {
		return stored{}, fmt.Errorf("the server answered %d, want 200", response.status)
	}
	length := int64(-1)
	if response.header("Content-Encoding") == "" { // else it is the length before decoding
		if n, err := strconv.ParseInt(response.header("Content-Length"), 10, 64); err == nil && n >= 0 {
			length = n
		}
	}
	count.add(1, max(length, 0), 0)

	array, blob := js.Global().Get("Array"), js.Global().Get("Blob")
	reader := response.value.Get("body").Call("getReader")
	parts, chunks, pending, size := array.New(), array.New(), 0, int64(0)
	for {
		read, err := Await(ctx, reader.Call("read"))
		if err != nil {
			return stored{}, fmt.Errorf("after %d bytes: %w", size, err)
		}
		if read.Get("done").Bool() {
			break
		}
		data := read.Get("value")
		n := data.Get("byteLength").Int()
		chunks.Call("push", data)
		pending, size = pending+n, size+int64(n)
		if length < 0 {
			count.add(0, int64(n), int64(n))
		} else if size > length {
			return stored{}, fmt.Errorf("got more than the %d bytes that the server announced", length)
		} else {
			count.add(0, 0, int64(n))
		}
		if pending >= fold {
			parts.Call("push", blob.New(chunks))
			chunks, pending = array.New(), 0
			runtime.GC() // Go's handles keep each chunk alive until it notices, and so few bytes of Go never make it look
		}
	}
	if size < length {
		return stored{}, fmt.Errorf("the connection ended after %d of %d bytes", size, length)
	}
	parts.Call("push", blob.New(chunks))
	whole := blob.New(parts)
	if pending > 1<<20 {
		runtime.GC()
	}
	return stored{blob: whole, size: size}, nil
}

// answer is a response whose body has not been read.
type answer struct {
	value  js.Value
	status int
	abort  js.Value
}

// stop ends the transfer if it still goes on.
func (a answer) stop() { a.abort.Call("abort") }

func (a answer) header(name string) string {
	if v := a.value.Get("headers").Call("get", name); v.Type() == js.TypeString {
		return v.String()
	}
	return ""
}

// fetch requests url, or a byte range of it.
func fetch(ctx context.Context, url, byteRange string) (answer, error) {
	abort := js.Global().Get("AbortController").New()
	options := map[string]any{"signal": abort.Get("signal")}
	if byteRange != "" {
		options["headers"] = map[string]any{"Range": byteRange}
	}
	promise, err := try(func() js.Value { return js.Global().Call("fetch", url, options) })
	if err != nil {
		return answer{}, err
	}
	value, err := Await(ctx, promise)
	if err != nil {
		abort.Call("abort")
		return answer{}, err
	}
	return answer{value, value.Get("status").Int(), abort}, nil
}

// URLs is the folder below a base URL that ends in a slash, read in ranges as needed. The server must answer range
// requests, as nearly all static servers do; what else the folder holds is unknown, so it cannot be listed.
type URLs struct {
	ctx  context.Context
	base string
}

// OpenURLs returns the folder at base; its reads end with ctx.
func OpenURLs(ctx context.Context, base string) *URLs { return &URLs{ctx, base} }

// Open asks the server for the file's size and version, and returns a *File without a Blob.
func (u *URLs) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = js.Global().Call("encodeURIComponent", s).String()
	}
	r := &urlRange{ctx: u.ctx, url: u.base + strings.Join(segments, "/")}
	response, err := fetch(u.ctx, r.url, "bytes=0-0") // not HEAD: its length may be that of a compressed answer
	if err != nil {
		return nil, &Error{r.url, err, wire.Network}
	}
	defer response.stop()
	switch response.status {
	case 404, 410:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case 206, 416: // 416 is the answer for an empty file
	default:
		return nil, &Error{r.url, fmt.Errorf("the server answered a range request with %d, want 206", response.status), wire.Network}
	}
	_, total, _ := strings.Cut(response.header("Content-Range"), "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size < 0 || (response.status == 416 && size > 0) {
		return nil, &Error{r.url, fmt.Errorf("the server gives the range %q, want one that tells the size", response.header("Content-Range")), wire.Network}
	}
	r.size, r.version = size, response.header("ETag")
	return newFile(info{path.Base(name), size, time.Time{}, 0o444}, name, r, js.Undefined()), nil
}

// urlRange reads ranges of a URL and refuses a file that changed in between.
type urlRange struct {
	ctx     context.Context
	url     string
	size    int64
	version string // ETag; may be empty
}

func (r *urlRange) read(p []byte, off int64) error {
	end := off + int64(len(p)) - 1
	response, err := fetch(r.ctx, r.url, fmt.Sprintf("bytes=%d-%d", off, end))
	if err != nil {
		return &Error{r.url, err, wire.Network}
	}
	defer response.stop()
	if response.status != 206 {
		return &Error{r.url, fmt.Errorf("the server answered %d to bytes %d-%d, want 206", response.status, off, end), wire.Network}
	}
	got, want := response.header("Content-Range"), fmt.Sprintf("bytes %d-%d/%d", off, end, r.size)
	if version := response.header("ETag"); got != want || version != r.version {
		return &Error{r.url, fmt.Errorf("the file changed on the server: got %q version %s, want %q version %s; load it again", got, version, want, r.version), wire.FileChanged}
	}
	if err := readInto(r.ctx, p, response.value.Call("arrayBuffer")); err != nil {
		return &Error{r.url, err, wire.Network}
	}
	return nil
}
