package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/actlog/actlog/agent/tool"
)

// named are the arguments of tools for one container.
type named struct {
	Container string `json:"container" jsonschema:"its name, as docker.list_containers has it"`
}

const maxListed = 200 // containers or images

type listArguments struct {
	All bool `json:"all,omitempty" jsonschema:"also those that do not run"`
}

type listed struct {
	Name   string `json:"name"`
	Image  string `json:"image"`
	State  string `json:"state"`
	Status string `json:"status"`
}

func (d *daemon) listContainers(ctx context.Context, in listArguments) (tool.Result, error) {
	names, all, err := d.list(ctx)
	if err != nil {
		return tool.Result{}, err
	}

	var text strings.Builder
	some := []listed{}
	for _, name := range names {
		c := all[name]
		if !in.All && c.State != "running" {
			continue
		}
		if len(some) == maxListed {
			text.WriteString("(There are more.)\n")
			break
		}

		l := listed{name, clean(c.Image), clean(c.State), clean(c.Status)}
		some = append(some, l)
		fmt.Fprintf(&text, "%s: %s, %s, image %s, made %s\n", l.Name, l.State, l.Status, l.Image, age(c.Created))
	}

	data, err := json.Marshal(some)
	summary := fmt.Sprintf("%d containers", len(some))
	return tool.Result{Text: text.String() + "(" + summary + ")", Summary: summary, Data: data}, err
}

func (d *daemon) inspectContainer(ctx context.Context, in named) (tool.Result, error) {
	c, err := d.find(ctx, in.Container)
	if err != nil {
		return tool.Result{}, err
	}
	found, variables, err := d.inspect(ctx, c)
	if err != nil {
		return tool.Result{}, err
	}

	data, err := json.Marshal(struct {
		details
		Variables []string `json:"variables,omitempty"` // names only
	}{found, variables[:min(len(variables), maxListed)]})
	if err != nil {
		return tool.Result{}, err
	}

	indented, err := json.MarshalIndent(json.RawMessage(data), "", "  ")
	return tool.Result{
		Text:    string(indented) + "\n(The values of variables, the command, labels and paths on the machine are left out.)",
		Summary: fmt.Sprintf("%s is %s", in.Container, clean(found.State.Status)), Data: data,
	}, err
}

type image struct {
	ID      string   `json:"Id"`
	Tags    []string `json:"RepoTags"`
	Size    int64    `json:"Size"`
	Created int64    `json:"Created"`
}

func (d *daemon) listImages(ctx context.Context, _ struct{}) (tool.Result, error) {
	all, err := listOf[image](ctx, d, "/images/json", nil)
	if err != nil {
		return tool.Result{}, err
	}

	var text strings.Builder
	for _, each := range all[:min(len(all), maxListed)] {
		fmt.Fprintf(&text, "%s, %d MB, made %s\n", clean(strings.Join(each.Tags, ", ")), each.Size/1e6, age(each.Created))
	}
	summary := fmt.Sprintf("%d images", len(all))
	return tool.Result{Text: text.String() + "(" + summary + ")", Summary: summary}, nil
}

// usage is what the daemon measured of a container, twice.
type usage struct {
	CPU      cpu                           `json:"cpu_stats"`
	Before   cpu                           `json:"precpu_stats"`
	Memory   struct{ Usage, Limit uint64 } `json:"memory_stats"`
	PIDs     struct{ Current uint64 }      `json:"pids_stats"`
	Networks map[string]struct {
		Received uint64 `json:"rx_bytes"`
		Sent     uint64 `json:"tx_bytes"`
	} `json:"networks"`
}

type cpu struct {
	Usage struct {
		Total uint64 `json:"total_usage"`
	} `json:"cpu_usage"`
	System uint64 `json:"system_cpu_usage"`
	Online uint64 `json:"online_cpus"`
}

// percent returns how much of one processor a container used.
func (u usage) percent() float64 {
	used := float64(u.CPU.Usage.Total) - float64(u.Before.Usage.Total)
	passed := float64(u.CPU.System) - float64(u.Before.System)
	if used <= 0 || passed <= 0 {
		return 0
	}
	return used / passed * float64(max(u.CPU.Online, 1)) * 100
}

type measured struct {
	CPUPercent    float64 `json:"cpuPercent"` // of one processor
	MemoryBytes   uint64  `json:"memoryBytes"`
	MemoryLimit   uint64  `json:"memoryLimit"`
	Processes     uint64  `json:"processes"`
	ReceivedBytes uint64  `json:"receivedBytes"`
	SentBytes     uint64  `json:"sentBytes"`
}

func (d *daemon) stats(ctx context.Context, in named) (tool.Result, error) {
	c, err := d.find(ctx, in.Container)
	if err != nil {
		return tool.Result{}, err
	}
	if c.State != "running" {
		return tool.Failure(fmt.Sprintf("%s does not run: it is %s.", in.Container, clean(c.State))), nil
	}

	var u usage
	if err := d.get(ctx, "/containers/"+c.ID+"/stats", url.Values{"stream": {"false"}}, &u); err != nil {
		return tool.Result{}, err
	}

	m := measured{
		CPUPercent: u.percent(), MemoryBytes: u.Memory.Usage, MemoryLimit: u.Memory.Limit, Processes: u.PIDs.Current,
	}
	for _, n := range u.Networks {
		m.ReceivedBytes += n.Received
		m.SentBytes += n.Sent
	}

	data, err := json.Marshal(m)
	text := fmt.Sprintf("%s: processor %.1f%% of one, memory %d of %d MB, %d processes, received %d kB, sent %d kB",
		in.Container, m.CPUPercent, m.MemoryBytes/1e6, m.MemoryLimit/1e6, m.Processes, m.ReceivedBytes/1e3, m.SentBytes/1e3)
	return tool.Result{Text: text, Summary: text, Data: data}, err
}
