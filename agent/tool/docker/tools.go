package docker

import "github.com/actlog/actlog/agent/tool"

// Tools returns the tools for the containers of a daemon. It connects to nobody. The error is an *OptionError.
func Tools(o Options) ([]tool.Tool, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}

	d := newDaemon(o)
	reads := tool.WithPolicy(tool.Policy{OnUnknown: tool.Retry, Timeout: d.Timeout})
	only := " Containers: " + d.allowed() + "."
	tools := []tool.Tool{
		tool.Func("docker.list_containers", "Lists the containers with their states."+only, d.listContainers, reads),
		tool.Func("docker.inspect", "Returns the details of a container: state, health, image, limits, ports, mounts.",
			d.inspectContainer, reads),
		tool.Func("docker.logs", "Returns the last lines that a container wrote, with their times.", d.logs, reads),
		tool.Func("docker.stats", "Measures how much processor, memory and network a container uses now.", d.stats, reads),
		tool.Func("docker.list_images", "Lists the images of the daemon with their sizes.", d.listImages, reads),
	}
	if !d.Write {
		return tools, nil
	}

	return append(tools,
		d.tool(start, "Starts a container that does not run."+only),
		d.tool(stop, "Stops a container."+only),
		d.tool(restart, "Restarts a container."+only)), nil
}
