package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/actlog/actlog/agent/tool"
	"github.com/actlog/actlog/record"
)

const (
	// FormTool is the name of the tool that asks the user to fill in a form.
	FormTool     = "form"
	formTimedOut = "Input timeout occurred"
)

type formInput struct {
	Label       string   `json:"label" jsonschema:"What the user reads beside the field"`
	Name        string   `json:"name,omitempty" jsonschema:"The key of the value; the label if there is none"`
	Type        string   `json:"type,omitempty" jsonschema:"text, number, email, password, textarea, select, checkbox or radio; text if there is none"`
	Placeholder string   `json:"placeholder,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Options     []string `json:"options,omitempty" jsonschema:"The choices of a select, checkbox or radio"`
}

type formArguments struct {
	Title       string      `json:"title,omitempty" jsonschema:"The question in a few words"`
	Description string      `json:"description,omitempty" jsonschema:"What the user should know to answer"`
	Inputs      []formInput `json:"inputs" jsonschema:"The fields of the form"`
}

// InputTypes are the types of the fields of a form.
var InputTypes = []string{"text", "number", "email", "password", "textarea", "select", "checkbox", "radio"}

// form asks the user to fill in a form. Its function never runs: the run itself carries it.
type form struct{ tool.ArgumentChecker }

func newForm() form {
	return form{tool.Func(FormTool,
		"Asks the user to fill in a form, and waits for the answer. Use it for what only the user knows or decides.",
		func(context.Context, formArguments) (string, error) {
			return "", errors.New("a form needs a run")
		}).(tool.ArgumentChecker)}
}

func (f form) callInRun(ctx context.Context, c *calling) (tool.Result, error) {
	if err := c.step.run.goesOn(ctx); err != nil {
		return tool.Result{}, err
	}

	var args formArguments
	if err := tool.Decode(json.RawMessage(c.call.Arguments), &args); err != nil {
		return c.recordEnd(record.Failed, tool.BadArguments(err), "tool"), nil
	}
	inputs, err := stringMaps(args.Inputs)
	if err != nil {
		return c.recordEnd(record.Failed, tool.BadArguments(err), "tool"), nil
	}

	waits := c.change(record.Waiting)
	if waits.StartTime = c.row.StartTime; waits.StartTime == nil {
		waits.StartTime = new(c.step.run.now())
	}
	w := WaitInfo{
		Type: record.WaitUserInput, Title: args.Title, Description: args.Description, Inputs: inputs, StepID: c.step.id,
		ToolCallID: c.row.ToolCallID,
		Timeout:    c.policy.WaitTimeout,
	}

	answer, err := c.step.run.ask(ctx, formKey(c), w, waits)
	switch {
	case err != nil:
		if parked := new(parkedError); errors.As(err, &parked) {
			c.keep(waits)
		}
		return tool.Result{}, err
	case answer.State == record.Submitted:
		return c.recordEnd(record.Completed, tool.Result{Text: formText(answer.Inputs)}, ""), nil
	case answer.State == record.TimedOut:
		return c.recordEnd(record.Failed, tool.Failure(formTimedOut), WaitTimedOut), nil
	}
	return c.recordEnd(record.Completed, tool.Result{Text: "The user closed the form without an answer."}, ""), nil
}

func formKey(c *calling) string { return "form-" + c.row.ToolCallID }

// stringMaps returns the fields of a form as they are on record.
func stringMaps(inputs []formInput) ([]map[string]string, error) {
	if len(inputs) == 0 {
		return nil, errors.New("inputs: a form needs at least one field")
	}

	maps := make([]map[string]string, len(inputs))
	names := map[string]bool{}
	for i, in := range inputs {
		if in.Label == "" {
			return nil, fmt.Errorf("inputs.%d.label: required", i)
		}
		in.Type = cmp.Or(in.Type, "text")
		if !slices.Contains(InputTypes, in.Type) {
			return nil, fmt.Errorf("inputs.%d.type: must be one of %s", i, strings.Join(InputTypes, ", "))
		}
		if (in.Type == "select" || in.Type == "radio") && len(in.Options) == 0 {
			return nil, fmt.Errorf("inputs.%d.options: required for a %s", i, in.Type)
		}

		m := map[string]string{"label": in.Label, "type": in.Type, "required": strconv.FormatBool(in.Required), "value": ""}
		for key, value := range map[string]string{
			"name": in.Name, "placeholder": in.Placeholder, "options": strings.Join(in.Options, ","),
		} {
			if value != "" {
				m[key] = value
			}
		}

		if key := keyOf(m); names[key] {
			return nil, fmt.Errorf("inputs.%d: two fields are called %q", i, key)
		}
		names[keyOf(m)] = true
		maps[i] = m
	}

	return maps, nil
}

// formText returns the values of a form as a model reads them.
func formText(inputs []map[string]string) string {
	values := map[string]string{}
	for _, in := range inputs {
		values[keyOf(in)] = in["value"]
	}
	b, _ := json.Marshal(values) // texts
	return string(b)
}
