package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// openIndexed opens every shard the index names and checks both against each other: each tensor lies in the shard the
// index says, and no shard holds a tensor the index does not list.
func openIndexed(fsys fs.FS) (*Checkpoint, error) {
	text, err := readIndex(fsys)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", indexFile, err)
	}
	weightMap, err := parseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", indexFile, err)
	}
	shards := map[string]bool{}
	for _, shard := range weightMap {
		shards[shard] = true
	}
	names := slices.Sorted(maps.Keys(shards))
	if err := needShards(fsys, names); err != nil {
		return nil, err
	}
	c := newCheckpoint()
	if err := c.addShards(fsys, names, weightMap); err != nil {
		c.Close()
		return nil, err
	}
	c.seal()
	return c, nil
}

func (c *Checkpoint) addShards(fsys fs.FS, shards []string, weightMap map[string]string) error {
	for _, shard := range shards {
		tensors, err := c.add(fsys, shard)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			want, listed := weightMap[t.Name]
			if !listed {
				return fmt.Errorf("safetensors: %s: tensor %s is not listed in %s", shard, quote(t.Name), indexFile)
			}
			if want != shard {
				return fmt.Errorf("safetensors: %s: found tensor %s, which %s puts in %s", shard, quote(t.Name), indexFile, want)
			}
			c.tensors[t.Name] = t
		}
	}
	if len(c.tensors) == len(weightMap) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		if _, ok := c.tensors[name]; !ok {
			return fmt.Errorf("safetensors: %s: tensor %s is missing, %s says it is here", weightMap[name], quote(name), indexFile)
		}
	}
	return nil
}

// needShards reports all missing shards at once, so that they can be fetched at once.
func needShards(fsys fs.FS, shards []string) error {
	const most = 10
	var missing []string
	count := 0
	for _, shard := range shards {
		_, err := fs.Stat(fsys, shard)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("safetensors: %w", err)
		}
		count++
		if count <= most {
			missing = append(missing, shard)
		}
	}
	if count == 0 {
		return nil
	}
	if count > most {
		missing = append(missing, fmt.Sprintf("and %d more", count-most))
	}
	return fmt.Errorf("safetensors: %d of the %d shards that %s names are missing: %s: %w",
		count, len(shards), indexFile, strings.Join(missing, ", "), fs.ErrNotExist)
}

// readIndex reads the index, under the same cap as a header.
func readIndex(fsys fs.FS) ([]byte, error) {
	f, err := fsys.Open(indexFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHeader+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf("expected at most %d bytes, found more", maxHeader)
	}
	return text, nil
}

// parseIndex returns weight_map: tensor name to shard. The metadata beside it is not used: total_size counts tied
// weights in some exporters and not in others.
func parseIndex(text []byte) (map[string]string, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not valid UTF-8")
	}
	if !json.Valid(text) { // the token walk below would not notice what follows the object
		return nil, errors.New("not valid JSON")
	}
	p := newParser(text)
	var weightMap map[string]string
	err := p.object(func(key string) error {
		if key != "weight_map" {
			var ignored json.RawMessage
			return p.dec.Decode(&ignored)
		}
		if weightMap != nil {
			return errors.New("weight_map occurs twice")
		}
		var err error
		weightMap, err = p.stringMap()
		if err != nil {
			return fmt.Errorf("weight_map: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(weightMap) == 0 {
		return nil, errors.New("expected a weight_map that names tensors, found none")
	}
	for name, shard := range weightMap {
		if !plainName(shard) {
			return nil, fmt.Errorf("weight_map: tensor %s: expected the name of a file in this folder, found %s", quote(name), quote(shard))
		}
	}
	return weightMap, nil
}

// plainName refuses whatever could lead out of the folder, on any system.
func plainName(name string) bool {
	return name != "." && fs.ValidPath(name) && !strings.Contains(name, "..") && !strings.ContainsAny(name, "/\\:\x00")
}
