package define

// Workflow is a chain of steps: the output of each is the input of the next. One with a class has no steps: it is a
// function of the program.
type Workflow struct {
	Description string         `json:"description,omitempty"`
	Steps       []WorkflowStep `json:"steps,omitempty"`
	ModulePath  string         `json:"modulePath,omitempty"`
	ClassName   string         `json:"className,omitempty"`
}

// Function returns the name under which the program has the function of a workflow with a class; empty: it has steps.
func (w Workflow) Function() string {
	if w.ModulePath == "" && w.ClassName == "" {
		return ""
	}
	return w.ModulePath + "." + w.ClassName
}

// WorkflowStep is an agent, or another workflow.
type WorkflowStep struct {
	Name string   `json:"name"`
	Type StepType `json:"type"`
}

// StepType says what a step of a workflow runs.
type StepType string

// The types of steps.
const (
	AgentStep  StepType = "agent"
	SimpleStep StepType = "simple_workflow"
	CustomStep StepType = "custom_workflow" // a function of the program
)
