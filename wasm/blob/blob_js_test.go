package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall/js"
	"testing"
	"testing/fstest"

	"flint/wasm/blob"
	"flint/wasm/wire"
)

func bytesToJS(data []byte) js.Value {
	array := js.Global().Get("Uint8Array").New(len(data))
	js.CopyBytesToJS(array, data)
	return array
}

// file is a File as an input element would give it; rel is its path in a folder picker, or empty.
func file(name, rel string, data []byte) js.Value {
	f := js.Global().Get("File").New([]any{bytesToJS(data)}, name, map[string]any{"lastModified": 1_700_000_000_000})
	if rel != "" {
		f.Set("webkitRelativePath", rel)
	}
	return f
}

func list(files ...js.Value) js.Value {
	array := js.Global().Get("Array").New()
	for _, f := range files {
		array.Call("push", f)
	}
	return array
}

func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

func TestAPickedFolderIsAFileSystem(t *testing.T) {
	folder, err := blob.Files(list(
		file("config.json", "model/config.json", []byte("{}")),
		file("model.safetensors", "model/model.safetensors", pattern(1000)),
		file("empty", "model/empty", nil),
		file("b", "model/sub/deep/b", []byte("b")),
		file("c", "model/sub/c", []byte("c")),
	))
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(folder, "config.json", "model.safetensors", "empty", "sub/deep/b", "sub/c"); err != nil {
		t.Error(err)
	}
}

func TestPickedFilesAreFoundByName(t *testing.T) {
	folder, err := blob.Files(list(file("config.json", "", []byte("{}"))))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(folder, "config.json"); err != nil || string(data) != "{}" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := folder.Open("tokenizer.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestBadSelectionsAreErrors(t *testing.T) {
	for _, c := range []struct {
		want  string
		files js.Value
	}{
		{"two picked files", list(file("a", "", nil), file("a", "", nil))},
		{"no valid path", list(file("a", "top/../a", nil))},
		{"no valid path", list(file("", "", nil))},
		{"below a folder", list(file("a", "a", nil))},
		{"both a file and the folder", list(file("a", "m/a", nil), file("b", "m/a/b", nil))},
	} {
		if _, err := blob.Files(c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestReadAtReadsAnyRange(t *testing.T) {
	data := pattern(17<<20 + 3) // more than one chunk
	folder, err := blob.Files(list(file("x", "", data)))
	if err != nil {
		t.Fatal(err)
	}
	checkReadAt(t, folder, "x", data)
	f, err := folder.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	if b := f.(*blob.File).Blob(); b.Get("size").Int() != len(data) {
		t.Errorf("Blob has size %v, want %d", b.Get("size"), len(data))
	}
}

func checkReadAt(t *testing.T, folder fs.FS, name string, data []byte) {
	t.Helper()
	opened, err := folder.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	f := opened.(*blob.File)
	size := len(data)
	for _, c := range []struct {
		off, n int
		end    error
	}{{0, 10, nil}, {1, size - 1, nil}, {size - 3, 10, io.EOF}, {size, 1, io.EOF}, {size + 5, 1, io.EOF}, {7, 0, nil}, {size, 0, nil}} {
		p := make([]byte, c.n)
		n, err := f.ReadAt(p, int64(c.off))
		want := data[min(c.off, size):min(c.off+c.n, size)]
		if !bytes.Equal(p[:n], want) || err != c.end {
			t.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d, %v, or the bytes differ", c.n, c.off, n, err, len(want), c.end)
		}
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset was accepted")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v, want fs.ErrClosed", err)
	}
}

// TestAFileThatChangedSaysSo stands a File in whose slices reject as a browser's do after the file on disk changed.
func TestAFileThatChangedSaysSo(t *testing.T) {
	f := file("weights", "", pattern(10))
	slice := js.FuncOf(func(js.Value, []js.Value) any {
		reading := js.FuncOf(func(js.Value, []js.Value) any {
			reason := js.Global().Get("DOMException").New("could not be read", "NotReadableError")
			return js.Global().Get("Promise").Call("reject", reason)
		})
		return map[string]any{"arrayBuffer": reading}
	})
	defer slice.Release()
	f.Set("slice", slice)
	folder, err := blob.Files(list(f))
	if err != nil {
		t.Fatal(err)
	}
	_, err = fs.ReadFile(folder, "weights")
	for _, want := range []string{"weights", "changed, moved or deleted", "pick it again", "NotReadableError"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if code := wire.CodeOf(err); code != wire.FileChanged {
		t.Errorf("code %q, want %q", code, wire.FileChanged)
	}
}

func TestAwaitGivesTheReason(t *testing.T) {
	promise := js.Global().Get("Promise")
	v, err := blob.Await(t.Context(), promise.Call("resolve", 42))
	if err != nil || v.Int() != 42 {
		t.Errorf("resolved: %v, %v", v, err)
	}
	_, err = blob.Await(t.Context(), promise.Call("reject", js.Global().Get("TypeError").New("no such thing")))
	if err == nil || err.Error() != "TypeError: no such thing" {
		t.Errorf("rejected with an error object: %v", err)
	}
	_, err = blob.Await(t.Context(), promise.Call("reject", "plain"))
	if err == nil || err.Error() != "plain" {
		t.Errorf("rejected with a string: %v", err)
	}
	_, err = blob.Await(t.Context(), promise.Call("reject", js.Undefined()))
	if err == nil || err.Error() != "undefined" {
		t.Errorf("rejected with nothing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := blob.Await(ctx, promise.New(js.FuncOf(func(js.Value, []js.Value) any { return nil }))); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// site is a server on a real socket.
type site struct {
	files   map[string][]byte
	version string
	handle  func(path, byteRange string) (status int, headers map[string]any, body []byte) // nil: serve files
}

func (s *site) serve(path, byteRange string) (int, map[string]any, []byte) {
	data, ok := s.files[path]
	if !ok {
		return 404, nil, nil
	}
	if byteRange == "" {
		return 200, map[string]any{"Content-Length": len(data)}, data
	}
	var from, to int
	if n, _ := fmt.Sscanf(byteRange, "bytes=%d-%d", &from, &to); n != 2 {
		return 400, nil, nil
	}
	if from >= len(data) {
		return 416, map[string]any{"Content-Range": fmt.Sprintf("bytes */%d", len(data)), "ETag": s.version}, nil
	}
	to = min(to, len(data)-1)
	return 206, map[string]any{"Content-Range": fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)), "ETag": s.version}, data[from : to+1]
}

// start returns the server's base URL.
func (s *site) start(t *testing.T) string {
	t.Helper()
	require := js.Global().Get("require")
	if !require.Truthy() {
		t.Skip("needs Node's http module")
	}
	if s.handle == nil {
		s.handle = s.serve
	}
	handler := js.FuncOf(func(_ js.Value, args []js.Value) any {
		request, response := args[0], args[1]
		byteRange := ""
		if r := request.Get("headers").Get("range"); r.Truthy() {
			byteRange = r.String()
		}
		status, headers, body := s.handle(strings.TrimPrefix(request.Get("url").String(), "/m/"), byteRange)
		if headers == nil {
			headers = map[string]any{}
		}
		response.Call("writeHead", status, headers)
		response.Call("end", bytesToJS(body))
		return nil
	})
	server := require.Invoke("http").Call("createServer", handler)
	listening := make(chan struct{})
	ready := js.FuncOf(func(js.Value, []js.Value) any { close(listening); return nil })
	server.Call("listen", 0, "127.0.0.1", ready)
	<-listening
	t.Cleanup(func() {
		server.Call("closeAllConnections")
		server.Call("close")
		ready.Release()
	})
	return fmt.Sprintf("http://127.0.0.1:%d/m/", server.Call("address").Get("port").Int())
}

func TestADownloadNeedsTheServerNoMore(t *testing.T) {
	data := pattern(3<<20 + 1)
	s := &site{files: map[string][]byte{"config.json": []byte("{}"), "model.safetensors": data}}
	base := s.start(t)
	var last, total int64
	folder, err := blob.Download(t.Context(), base, []string{"config.json", "chat_template.jinja", "model.safetensors"}, func(d, n int64) {
		if d < last || n != 0 && d > n {
			t.Errorf("progress went from %d to %d of %d", last, d, n)
		}
		last, total = d, n
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(len(data) + 2); last != want || total != want {
		t.Errorf("ended at %d of %d, want %d", last, total, want)
	}
	s.files = nil
	checkReadAt(t, folder, "model.safetensors", data)
	if _, err := folder.Open("chat_template.jinja"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that the server does not have: %v, want fs.ErrNotExist", err)
	}
}

func TestDownloadsThatFailSayWhichFileAndWhy(t *testing.T) {
	ignore := func(int64, int64) {}
	for name, c := range map[string]struct {
		handle func(string, string) (int, map[string]any, []byte)
		want   string
	}{
		"server error": {func(string, string) (int, map[string]any, []byte) { return 503, nil, nil }, "answered 503"},
		"none there":   {func(string, string) (int, map[string]any, []byte) { return 404, nil, nil }, "none of config.json, model"},
		"cut short": {func(string, string) (int, map[string]any, []byte) {
			return 200, map[string]any{"Content-Length": 100, "Connection": "close"}, pattern(10)
		}, "config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			base := (&site{handle: c.handle}).start(t)
			_, err := blob.Download(t.Context(), base, []string{"config.json", "model"}, ignore)
			if err == nil || !strings.Contains(err.Error(), c.want) || wire.CodeOf(err) != wire.Network {
				t.Errorf("got %v (code %s), want %q and code network", err, wire.CodeOf(err), c.want)
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		_, err := blob.Download(t.Context(), "http://127.0.0.1:1/", []string{"a"}, ignore)
		if err == nil || wire.CodeOf(err) != wire.Network {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := blob.Download(ctx, (&site{}).start(t), []string{"a"}, ignore)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

func TestRangesComeFromTheServer(t *testing.T) {
	data := pattern(1000)
	s := &site{files: map[string][]byte{"model": data, "sub/a%20b": []byte("x"), "empty": nil}, version: `"1"`}
	folder := blob.OpenURLs(t.Context(), s.start(t))
	checkReadAt(t, folder, "model", data)
	for name, want := range map[string]string{"sub/a b": "x", "empty": ""} {
		if got, err := fs.ReadFile(folder, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := folder.Open("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := folder.Open("../model"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("invalid path: %v", err)
	}

	f, err := folder.Open("model")
	if err != nil {
		t.Fatal(err)
	}
	s.version = `"2"`
	if _, err = f.Read(make([]byte, 10)); wire.CodeOf(err) != wire.FileChanged {
		t.Errorf("changed on the server: %v, want the code file-changed", err)
	}
}

func TestAServerWithoutRangesIsRefused(t *testing.T) {
	s := &site{handle: func(string, string) (int, map[string]any, []byte) { return 200, nil, pattern(100) }}
	_, err := blob.OpenURLs(t.Context(), s.start(t)).Open("model")
	if err == nil || !strings.Contains(err.Error(), "with 200, want 206") {
		t.Errorf("got %v", err)
	}
}
