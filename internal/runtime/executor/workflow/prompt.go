package workflow

import "fmt"

// The texts of results.

func stepFailed(name, why string) string {
	return fmt.Sprintf("Error processing component '%s': %s", name, why)
}

func setupFailed(why string) string { return "Workflow setup error: " + why }

func customFailed(name, why string) string {
	return fmt.Sprintf("Exception during custom workflow '%s' execution: %s", name, why)
}
