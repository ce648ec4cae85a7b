package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/actlog/actlog/internal/record/wire"
)

// Contract is openapi.yaml, with its schemas ready for use.
type Contract struct {
	Raw []byte // the file
	Doc Obj

	compiler *jsonschema.Compiler
	mu       sync.Mutex
	schemas  map[string]*jsonschema.Schema
}

// TheContract reads openapi.yaml. Tests run in the folder of their package.
var TheContract = sync.OnceValue(func() *Contract {
	o, err := readContract(filepath.Join("..", "..", "door", "api", "openapi.yaml"))
	if err != nil {
		panic(err)
	}
	return o
})

func readContract(path string) (*Contract, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var fromYAML any
	if err := yaml.Unmarshal(file, &fromYAML); err != nil {
		return nil, err
	}

	raw, err := json.Marshal(fromYAML)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}

	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("http://actlog/openapi.json", doc); err != nil {
		return nil, err
	}
	return &Contract{Raw: file, Doc: doc.(Obj), compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
}

// Find walks to a part of the document, through references, and returns it with its place.
func (o *Contract) Find(pointer ...string) (part Obj, at []string) {
	part = o.Doc
	for _, name := range pointer {
		next, ok := part[name].(Obj)
		if !ok {
			return nil, nil
		}
		part, at = next, append(at, name)
		if ref, ok := part["$ref"].(string); ok {
			part, at = o.Find(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return part, slices.Clone(at)
}

// Validate checks a value against the schema at a place.
func (o *Contract) Validate(value any, pointer ...string) error {
	var location strings.Builder
	location.WriteString("http://actlog/openapi.json#")
	for _, name := range pointer {
		location.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	schema := o.schemas[location.String()]
	if schema == nil {
		var err error
		if schema, err = o.compiler.Compile(location.String()); err != nil {
			return err
		}
		o.schemas[location.String()] = schema
	}
	return schema.Validate(value)
}

// route returns the path of the document that describes a request's path.
func (o *Contract) route(path string) (string, bool) {
	paths, _ := o.Find("paths")
	segments := strings.Split(path, "/")
	for _, route := range slices.Sorted(maps.Keys(paths)) {
		if slices.EqualFunc(strings.Split(route, "/"), segments, func(r, s string) bool {
			return r == s || strings.HasPrefix(r, "{")
		}) {
			return route, true
		}
	}
	return "", false
}

// CheckAnswer checks an answer against the contract.
func (o *Contract) CheckAnswer(method, path string, a Answer) error {
	head := method == http.MethodHead
	if head { // as GET, without a body
		method = http.MethodGet
	}

	route, ok := o.route(path)
	operation, _ := o.Find("paths", route, strings.ToLower(method))
	if !ok || operation == nil {
		if a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusUnauthorized {
			return nil
		}
		return errors.New("the contract has no such operation")
	}

	response, at := o.Find("paths", route, strings.ToLower(method), "responses", strconv.Itoa(a.Status))
	if response == nil {
		return fmt.Errorf("the contract has no status %d here: %.300s", a.Status, a.Body)
	}
	headers, _ := response["headers"].(Obj)
	for name, header := range headers {
		optional := header.(Obj)["required"] == false
		if a.Header.Get(name) == "" && !optional {
			return fmt.Errorf("the answer %d has no %s", a.Status, name)
		}
	}

	content, _ := response["content"].(Obj)
	if content == nil || head {
		if len(a.Body) > 0 {
			return fmt.Errorf("the answer %d has a body: %.300s", a.Status, a.Body)
		}
		return nil
	}

	mediaType, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if content[mediaType] == nil {
		return fmt.Errorf("the contract has no content type %q for %d", mediaType, a.Status)
	}
	if mediaType == wire.TypeNDJSON {
		return o.checkLines(a.Body)
	}
	at = append(at, "content", mediaType, "schema")
	if mediaType == "text/event-stream" {
		return o.checkEvents(a.Body, at)
	}

	value := any(string(a.Body))
	if strings.HasSuffix(mediaType, "json") {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(a.Body)); err != nil {
			return err
		}
	}
	return o.Validate(value, at...)
}

// checkEvents checks each event of a stream that is whole against a schema.
func (o *Contract) checkEvents(stream []byte, schema []string) error {
	blocks := strings.Split(string(stream), "\n\n")
	for _, block := range blocks[:len(blocks)-1] {
		event := Obj{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			if name != "" && name != "retry" { // a comment, and how soon to come back
				event[name] = strings.TrimPrefix(value, " ")
			}
		}

		if event["data"] == nil {
			continue
		}
		if err := o.Validate(event, schema...); err != nil {
			return err
		}
	}
	return nil
}

// checkLines checks an export: records, and with contents once also contents and what texts are kept in.
func (o *Contract) checkLines(body []byte) error {
	records := []any{}
	for line := range bytes.Lines(body) {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			return err
		}

		record, _ := value.(Obj)
		if record["kind"] == "content" {
			if err := o.Validate(value, "components", "schemas", "ContentLine"); err != nil {
				return err
			}
			continue
		}

		if parts, ok := record["thinkInputParts"]; ok {
			if err := o.Validate(parts, "components", "schemas", "Cycle", "properties", "thinkInputParts"); err != nil {
				return err
			}
			delete(record, "thinkInputParts")
		}
		records = append(records, value)
	}
	return o.Validate(Obj{"records": records}, "components", "schemas", "Records")
}

// CheckRecords checks a body of records against the contract.
func (o *Contract) CheckRecords(body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return o.Validate(value, "components", "schemas", "Records")
}
