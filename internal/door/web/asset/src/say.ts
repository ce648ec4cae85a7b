let region: HTMLElement | undefined;
let timer = 0;

// say shows a message for some seconds, also to who listens to the page.
export function say(text: string): void {
  if (!region) {
    region = document.createElement("p");
    region.className = "said";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = text;
  clearTimeout(timer);
  timer = window.setTimeout(() => region?.replaceChildren(), 5000);
}
