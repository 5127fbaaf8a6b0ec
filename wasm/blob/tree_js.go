package blob

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall/js"
	"time"
)

// FS is a read-only folder of blobs. It implements fs.ReadDirFS and fs.StatFS.
type FS struct {
	files map[string]stored        // by full path
	dirs  map[string][]fs.DirEntry // entries by folder, sorted by name; "." is the root
}

// stored is a blob and what is known about it.
type stored struct {
	blob     js.Value
	size     int64
	modified time.Time
}

// Files returns the folder that list describes: a FileList or an array of File objects. Files of a folder picker
// (webkitRelativePath "chosen/sub/file") are found by their path below the chosen folder, others by their name.
func Files(list js.Value) (*FS, error) {
	files := make(map[string]stored, list.Length())
	for i := range list.Length() {
		file := list.Index(i)
		name := file.Get("name").String()
		if rel := file.Get("webkitRelativePath"); rel.Type() == js.TypeString && rel.String() != "" {
			_, below, ok := strings.Cut(rel.String(), "/")
			if !ok {
				return nil, fmt.Errorf("picked file %d has the path %q, want one below a folder", i, rel.String())
			}
			name = below
		}
		if !fs.ValidPath(name) || name == "." {
			return nil, fmt.Errorf("picked file %d has the name %q, which is no valid path", i, name)
		}
		if _, twice := files[name]; twice {
			return nil, fmt.Errorf("two picked files are named %q: pick the files of one model only", name)
		}
		files[name] = stored{file, int64(file.Get("size").Float()), time.UnixMilli(int64(file.Get("lastModified").Float()))}
	}
	return newFS(files)
}

func newFS(files map[string]stored) (*FS, error) {
	f := &FS{files, map[string][]fs.DirEntry{".": nil}}
	for name, s := range files {
		var entry fs.DirEntry = info{path.Base(name), s.size, s.modified, 0o444}
		for child := name; ; {
			dir := path.Dir(child)
			if _, isFile := files[dir]; isFile {
				return nil, fmt.Errorf("%q is both a file and the folder of %q", dir, child)
			}
			_, known := f.dirs[dir]
			f.dirs[dir] = append(f.dirs[dir], entry)
			if known {
				break
			}
			child, entry = dir, info{path.Base(dir), 0, time.Time{}, fs.ModeDir | 0o555}
		}
	}
	for _, entries := range f.dirs {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return f, nil
}

// Open returns a *File, or a folder.
func (f *FS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if s, ok := f.files[name]; ok {
		return newFile(info{path.Base(name), s.size, s.modified, 0o444}, name, blobRange{s.blob}, s.blob), nil
	}
	if entries, ok := f.dirs[name]; ok {
		return &dir{info{path.Base(name), 0, time.Time{}, fs.ModeDir | 0o555}, entries}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// info describes a file or folder, as fs.FileInfo and fs.DirEntry.
type info struct {
	name     string
	size     int64
	modified time.Time
	mode     fs.FileMode
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) Type() fs.FileMode          { return i.mode.Type() }
func (i info) ModTime() time.Time         { return i.modified }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }
func (i info) String() string             { return fs.FormatDirEntry(i) }

// dir is an open folder.
type dir struct {
	info
	rest []fs.DirEntry
}

func (d *dir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dir) Close() error               { return nil }

func (d *dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: fmt.Errorf("is a folder")}
}

func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	count := len(d.rest)
	if n > 0 {
		if count == 0 {
			return nil, io.EOF
		}
		count = min(n, count)
	}
	entries := slices.Clone(d.rest[:count])
	d.rest = d.rest[count:]
	return entries, nil
}
