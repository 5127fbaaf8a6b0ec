package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"flint/gpu/gputest"
)

// file builds the bytes of a safetensors file from header text and data.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, data...)
}

func written(t testing.TB, tensors ...Named) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := Write(&buf, tensors); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func folder(files map[string][]byte) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	return fsys
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not say %q: %v", part, err)
		}
	}
	if len(err.Error()) > 2000 {
		t.Errorf("error message of %d bytes", len(err.Error()))
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	data := written(
		t,
		Named{"bias", BF16, []int{1}, []byte{0x80, 0x3f}},
		Named{"flag", BOOL, nil, []byte{1}},
		Named{"weight", F32, []int{2, 1}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0}},
		Named{"empty", I64, []int{3, 0}, nil},
		Named{"half", F16, []int{2}, []byte{0, 0x3c, 0xff, 0x7b}},
		Named{"ids", I32, []int{2}, []byte{7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
	)
	c, err := OpenFile(folder(map[string][]byte{"x.safetensors": data}), "x.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, want := c.Names(), []string{"bias", "empty", "flag", "half", "ids", "weight"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	for name, want := range map[string][]float32{"bias": {1}, "weight": {1, -2.5}, "half": {1, 65504}} {
		got, err := c.Float32s(name)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	if got, err := c.Int32s("ids"); err != nil || !slices.Equal(got, []int32{7, -1}) {
		t.Errorf("ids: %v, %v", got, err)
	}
	weight, _ := c.Lookup("weight")
	if weight.Offset%4 == 0 {
		t.Errorf("weight at byte %d: this test is to cover data off 4-byte alignment", weight.Offset)
	}
	if !bytes.Equal(data[weight.Offset:weight.Offset+weight.Size], []byte{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0}) {
		t.Error("Offset and Size do not bound the tensor's bytes in the file")
	}
	if !reflect.DeepEqual(weight, Tensor{"weight", F32, []int{2, 1}, "x.safetensors", weight.Offset, 8}) {
		t.Errorf("weight is %+v", weight)
	}
	if want := []FileInfo{{Name: "x.safetensors", Size: int64(len(data))}}; !reflect.DeepEqual(c.Files(), want) {
		t.Errorf("files %v, want %v", c.Files(), want)
	}
	if c.Size() != 2+1+8+0+4+8 {
		t.Errorf("size %d", c.Size())
	}
	_, err = c.Float32s("ids")
	wantError(t, err, "x.safetensors", `"ids" is I32`, "expected F32, F16 or BF16")
	_, err = c.Int32s("bias")
	wantError(t, err, `"bias" is BF16`, "expected I32")
	_, err = c.ReadFull("nothing")
	wantError(t, err, `no tensor "nothing"`)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = c.ReadFull("bias")
	wantError(t, err, "not open")
}

func TestWriteRefusesWhatOpenWouldRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		tensors []Named
		want    string
	}{
		"short data":    {[]Named{{"a", F32, []int{2}, make([]byte, 7)}}, "needs 8 bytes, found 7"},
		"twice":         {[]Named{{"a", U8, nil, []byte{0}}, {"a", U8, nil, []byte{0}}}, "occurs twice"},
		"dtype":         {[]Named{{"a", "Q4", nil, nil}}, `"Q4" is unknown`},
		"negative":      {[]Named{{"a", U8, []int{-1}, nil}}, "negative"},
		"overflow":      {[]Named{{"a", F64, []int{math.MaxInt}, nil}}, "overflows"},
		"reserved name": {[]Named{{"__metadata__", U8, nil, []byte{0}}}, "reserved"},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, Write(&bytes.Buffer{}, c.tensors), c.want) })
	}
}

func TestBrokenHeadersAreRefused(t *testing.T) {
	one := func(fields string) []byte { return file(`{"w":{`+fields+`}}`, 1, 2, 3, 4) }
	cases := map[string]struct {
		data []byte
		want []string
	}{
		"empty file":              {nil, []string{"8 bytes", "0 bytes"}},
		"header past the file":    {file(`{}`)[:9], []string{"header length is 2 bytes", "only 1 follow"}},
		"header over the cap":     {binary.LittleEndian.AppendUint64(nil, 100_000_001), []string{"100000001", "at most 100000000"}},
		"header length negative":  {binary.LittleEndian.AppendUint64(nil, math.MaxUint64), []string{"at most 100000000"}},
		"LFS pointer":             {[]byte("version https://git-lfs.github.com/spec/v1\n"), []string{"Git LFS"}},
		"not an object":           {file(`[]`), []string{"'{'", `"[]"`}},
		"leading blank":           {file(` {}`), []string{"starting with '{'"}},
		"zero-length header":      {file(``), []string{"starting with '{'"}},
		"half an object":          {file(`{"w":`), []string{"JSON at byte", "unexpected EOF"}},
		"trailing comma":          {file(`{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]},}`, 1), []string{"JSON at byte"}},
		"text after the object":   {file(`{} x`), []string{"only blanks", `"x"`}},
		"not UTF-8":               {file("{\"\xff\":1}"), []string{"UTF-8"}},
		"tensor twice":            {file(`{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"\u0077":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1), []string{`"w" occurs twice`}},
		"metadata twice":          {file(`{"__metadata__":{},"__metadata__":{}}`), []string{"occurs twice"}},
		"metadata key twice":      {file(`{"__metadata__":{"a":"1","a":"2"}}`), []string{"__metadata__", `"a" occurs twice`}},
		"metadata not strings":    {file(`{"__metadata__":{"a":1}}`), []string{"__metadata__", `"a"`, "expected a string"}},
		"metadata a list":         {file(`{"__metadata__":[]}`), []string{"expected an object"}},
		"tensor not an object":    {file(`{"w":1}`), []string{`tensor "w"`, "expected an object", `number "1"`}},
		"field twice":             {one(`"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]`), []string{`"dtype" occurs twice`}},
		"field missing":           {one(`"dtype":"U8","shape":[4]`), []string{`"data_offsets" is missing`}},
		"field unknown":           {one(`"dtype":"U8","shape":[4],"data_offsets":[0,4],"scale":2`), []string{`"scale"`}},
		"dtype unknown":           {one(`"dtype":"Q8","shape":[4],"data_offsets":[0,4]`), []string{`tensor "w"`, `"Q8"`, "BF16"}},
		"dtype a number":          {one(`"dtype":8,"shape":[4],"data_offsets":[0,4]`), []string{"dtype: expected a string"}},
		"dimension negative":      {one(`"dtype":"U8","shape":[-4],"data_offsets":[0,4]`), []string{"shape", `"-4"`}},
		"dimension fractional":    {one(`"dtype":"U8","shape":[4.0],"data_offsets":[0,4]`), []string{"shape", `"4.0"`}},
		"dimension huge":          {one(`"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]`), []string{"2^63-1"}},
		"shape overflows":         {one(`"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]`), []string{"overflows"}},
		"shape overflows in size": {one(`"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]`), []string{"overflows"}},
		"shape of many":           {one(`"dtype":"U8","shape":[` + strings.Repeat("1,", 40) + `4],"data_offsets":[0,4]`), []string{"at most 32"}},
		"shape null":              {one(`"dtype":"U8","shape":null,"data_offsets":[0,4]`), []string{"expected a list", "null"}},
		"one offset":              {one(`"dtype":"U8","shape":[4],"data_offsets":[0]`), []string{"expected [begin, end]"}},
		"three offsets":           {one(`"dtype":"U8","shape":[4],"data_offsets":[0,4,5]`), []string{"at most 2"}},
		"offset negative":         {one(`"dtype":"U8","shape":[4],"data_offsets":[-4,0]`), []string{`"-4"`}},
		"end before begin":        {one(`"dtype":"U8","shape":[4],"data_offsets":[4,0]`), []string{"[4, 0]"}},
		"size is not the shape's": {one(`"dtype":"U16","shape":[4],"data_offsets":[0,4]`), []string{"hold 4 bytes", "U16 [4] needs 8"}},
		"truncated":               {one(`"dtype":"U8","shape":[5],"data_offsets":[0,5]`), []string{"x.safetensors", `"w"`, "byte 5", "has 4", "truncated"}},
		"past 2^63":               {one(`"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]`), []string{"truncated"}},
		"trailing bytes":          {one(`"dtype":"U8","shape":[3],"data_offsets":[0,3]`), []string{"expected 3 bytes", "found 4", "1 bytes after"}},
		"hole at the start":       {one(`"dtype":"U8","shape":[3],"data_offsets":[1,4]`), []string{"hole", "begins at data byte 1, expected 0"}},
		"hole between": {
			file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 1, 2, 3, 4),
			[]string{`"b" leaves a hole after "a"`},
		},
		"overlap": {
			file(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 1, 2, 3, 4),
			[]string{`"b" overlaps "a"`},
		},
		"empty tensor inside another": {
			file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}`, 1, 2, 3, 4),
			[]string{`"b" overlaps "a"`},
		},
		"name of a megabyte": {file(`{"` + strings.Repeat("n", 1<<20) + `":1}`), []string{"bytes more"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := OpenFile(folder(map[string][]byte{"x.safetensors": c.data}), "x.safetensors")
			wantError(t, err, append(c.want, "x.safetensors")...)
		})
	}
}

func TestBlanksAfterTheHeaderAndMetadataAreAccepted(t *testing.T) {
	data := file(`{"__metadata__":{"format":"pt"},"w":{"data_offsets":[0,0],"shape":[0],"dtype":"U8"}}`+"  \n ", nil...)
	c, err := OpenFile(folder(map[string][]byte{"x": data}), "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Metadata(); got["format"] != "pt" {
		t.Errorf("metadata %v", got)
	}
}

func shards(t testing.TB) map[string][]byte {
	return map[string][]byte{
		"model-1.safetensors": written(t, Named{"a", U8, []int{3}, []byte{1, 2, 3}}, Named{"b", U8, nil, []byte{4}}),
		"model-2.safetensors": written(t, Named{"c", U8, nil, []byte{5}}),
	}
}

func TestShardsAreOneCheckpoint(t *testing.T) {
	files := shards(t)
	files[indexFile] = []byte(`{"metadata":{"total_size":99,"x":[1,{"weight_map":0}]},"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors"}}`)
	c, err := Open(folder(files))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("names %v", got)
	}
	if got, err := c.ReadFull("c"); err != nil || !bytes.Equal(got, []byte{5}) {
		t.Errorf("c: %v, %v", got, err)
	}
	if f := c.Files(); len(f) != 2 || f[0].Name != "model-1.safetensors" || f[1].Size != int64(len(files["model-2.safetensors"])) {
		t.Errorf("files %v", f)
	}
	if c.Size() != 5 {
		t.Errorf("size %d, want 5", c.Size())
	}
}

func TestTheSingleFileWinsOverTheIndex(t *testing.T) {
	c, err := Open(folder(map[string][]byte{singleFile: written(t), indexFile: []byte("not even JSON")}))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestBrokenIndexesAreRefused(t *testing.T) {
	cases := map[string]struct {
		index string
		want  []string
	}{
		"not JSON":           {`{`, []string{"not valid JSON"}},
		"two values":         {`{} {}`, []string{"not valid JSON"}},
		"not UTF-8":          {"{\"\xff\":1}", []string{"UTF-8"}},
		"a list":             {`[]`, []string{"expected an object"}},
		"no map":             {`{"metadata":{}}`, []string{"weight_map"}},
		"empty map":          {`{"weight_map":{}}`, []string{"weight_map"}},
		"map twice":          {`{"weight_map":{"a":"model-1.safetensors"},"weight_map":{"a":"model-1.safetensors"}}`, []string{"weight_map occurs twice"}},
		"tensor twice":       {`{"weight_map":{"a":"model-1.safetensors","a":"model-2.safetensors"}}`, []string{`"a" occurs twice`}},
		"shard a number":     {`{"weight_map":{"a":1}}`, []string{`"a"`, "expected a string"}},
		"shard missing":      {`{"weight_map":{"a":"model-1.safetensors","c":"model-3.safetensors","d":"model-4.safetensors"}}`, []string{"2 of the 3 shards", "model-3.safetensors, model-4.safetensors"}},
		"tensor missing":     {`{"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors","d":"model-2.safetensors"}}`, []string{"model-2.safetensors", `"d" is missing`}},
		"tensor not listed":  {`{"weight_map":{"a":"model-1.safetensors","c":"model-2.safetensors"}}`, []string{"model-1.safetensors", `"b" is not listed`}},
		"tensor elsewhere":   {`{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors"}}`, []string{"model-1.safetensors", `"b"`, "puts in model-2.safetensors"}},
		"shard above":        {`{"weight_map":{"a":"../model-1.safetensors"}}`, []string{"file in this folder", "../model-1.safetensors"}},
		"shard below":        {`{"weight_map":{"a":"sub/model-1.safetensors"}}`, []string{"file in this folder"}},
		"shard with ..":      {`{"weight_map":{"a":"..model"}}`, []string{"file in this folder"}},
		"shard, Windows way": {`{"weight_map":{"a":"sub\\model-1.safetensors"}}`, []string{"file in this folder"}},
		"shard, a drive":     {`{"weight_map":{"a":"c:model-1.safetensors"}}`, []string{"file in this folder"}},
		"shard is .":         {`{"weight_map":{"a":"."}}`, []string{"file in this folder"}},
		"shard unnamed":      {`{"weight_map":{"a":""}}`, []string{"file in this folder"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := shards(t)
			files[indexFile] = []byte(c.index)
			_, err := Open(folder(files))
			wantError(t, err, append(c.want, indexFile)...)
		})
	}
}

func TestAFolderWithoutWeightsSaysWhatItHolds(t *testing.T) {
	_, err := Open(folder(map[string][]byte{"pytorch_model.bin": nil, "config.json": nil}))
	wantError(t, err, singleFile, indexFile, `"config.json", "pytorch_model.bin"`)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("not fs.ErrNotExist")
	}
	_, err = Open(folder(nil))
	wantError(t, err, "empty folder")
	many := map[string][]byte{}
	for i := range 100 {
		many[fmt.Sprintf("part-%03d", i)] = nil
	}
	_, err = Open(folder(many))
	wantError(t, err, "and 80 more")
	_, err = OpenFile(folder(map[string][]byte{"sub/x": nil}), "sub")
	wantError(t, err, "sub", "folder")
}

// streamFS serves files that can only be read in order.
type streamFS struct{ fs.FS }

func (s streamFS) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestAFileThatCannotReadAtAnOffsetIsRefused(t *testing.T) {
	_, err := Open(streamFS{folder(map[string][]byte{singleFile: written(t)})})
	wantError(t, err, singleFile, "io.ReaderAt")
}

func TestReferenceCheckpointsOpen(t *testing.T) {
	dir := gputest.Shared(t, "reference")
	models, err := filepath.Glob(filepath.Join(dir, "*", "*.safetensors"))
	if err != nil || len(models) == 0 {
		t.Fatalf("no checkpoints in %s: %v", dir, err)
	}
	odd := 0
	for _, path := range models {
		c, err := OpenFile(os.DirFS(filepath.Dir(path)), filepath.Base(path))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, name := range c.Names() {
			w, _ := c.Lookup(name)
			if w.Offset%4 != 0 {
				odd++
			}
		}
		c.Close()
	}
	if odd == 0 {
		t.Error("no tensor lies off 4-byte alignment: the reference is meant to have some")
	}
}

func TestGoldenNumbersAreRead(t *testing.T) {
	c, err := OpenFile(os.DirFS(gputest.Shared(t, "reference", "llama_minicpm5")), "golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ids, err := c.Int32s("prompt1.ids")
	if err != nil || len(ids) != 7 {
		t.Fatalf("prompt1.ids: %v, %v, want 7 ids", ids, err)
	}
	// The first greedy token is the argmax of the last row of logits: two tensors of two dtypes agree.
	logits, err := c.Float32s("prompt1.logits")
	if err != nil {
		t.Fatal(err)
	}
	greedy, err := c.Int32s("prompt1.greedy")
	if err != nil {
		t.Fatal(err)
	}
	last := logits[len(logits)/7*6:]
	best := 0
	for i, v := range last {
		if v > last[best] {
			best = i
		}
	}
	if int32(best) != greedy[0] {
		t.Errorf("argmax of the last logits is %d, greedy starts with %d", best, greedy[0])
	}
}
