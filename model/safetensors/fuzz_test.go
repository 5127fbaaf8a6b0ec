package safetensors

import "testing"

// checkInvariants reads every tensor of a checkpoint that opened, and checks that they fill the files.
func checkInvariants(t *testing.T, c *Checkpoint) {
	var total int64
	for _, f := range c.Files() {
		total += f.Size
	}
	if c.Size() > total {
		t.Fatalf("tensors hold %d bytes, files %d", c.Size(), total)
	}
	for _, name := range c.Names() {
		w, ok := c.Lookup(name)
		if !ok || w.Name != name {
			t.Fatalf("name %q finds %+v, %v", name, w, ok)
		}
		data, err := c.ReadFull(name)
		if err != nil {
			t.Fatal(err)
		}
		n := w.DType.Bytes()
		for _, d := range w.Shape {
			n *= d
		}
		if len(data) != n {
			t.Fatalf("%+v: %d bytes read, want %d", w, len(data), n)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(written(f, Named{"a", BF16, []int{1}, []byte{1, 2}}, Named{"b", F32, []int{1, 2}, make([]byte, 8)}, Named{"s", BOOL, nil, []byte{1}}))
	f.Add(file(`{"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}} `))
	f.Add(file(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := OpenFile(folder(map[string][]byte{"x": data}), "x")
		if err != nil {
			return
		}
		defer c.Close()
		checkInvariants(t, c)
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":5},"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	files := shards(f)
	f.Fuzz(func(t *testing.T, index []byte) {
		all := map[string][]byte{indexFile: index}
		for name, data := range files {
			all[name] = data
		}
		c, err := Open(folder(all))
		if err != nil {
			return
		}
		defer c.Close()
		held := map[string]int{"model-1.safetensors": 2, "model-2.safetensors": 1}
		for _, f := range c.Files() {
			held[""] += held[f.Name]
		}
		if len(c.Names()) != held[""] {
			t.Fatalf("%d tensors of %v, want all %d that the shards hold", len(c.Names()), c.Files(), held[""])
		}
		checkInvariants(t, c)
	})
}
