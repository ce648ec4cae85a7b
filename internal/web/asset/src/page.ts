// The script of all pages. They are whole without it: it makes them quicker, and adds keys.
import { openList } from "./list";
import { chooseScheme } from "./scheme";
import { chooseTimes } from "./time";
import { openTree } from "./tree";

chooseTimes();
chooseScheme();
const list = document.querySelector<HTMLElement>(".list");
if (list) openList(list);
const tree = document.querySelector<HTMLElement>("[role=tree]");
if (tree) openTree(tree);
