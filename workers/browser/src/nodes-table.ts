import { html, reconcile } from "./dom.ts";
import { certificateText, validityOf } from "./membership.ts";
import { platformClass, type Ring, type RingNode, shortId } from "./model.ts";

/** Lists the nodes as a table: the same as the drawing, for those who do not see it. */
export function renderNodes(body: HTMLElement, ring: Ring): void {
  const now_ms = Date.now();
  const nodes = ring.nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  reconcile(
    body,
    nodes,
    (node) => node.id,
    createRow,
    (row, node) => {
      const validity = validityOf(ring.membership, node.id);
      const certificate = validity === undefined ? "" : `, certificate ${certificateText(validity, now_ms)}`;
      updateRow(row, node, node.id === ring.self, certificate);
    },
  );
}

function createRow(): HTMLTableRowElement {
  const row = html("tr");
  const where = html("td");
  const mark = html("span", "platform");
  mark.ariaHidden = "true";
  where.append(mark, html("span"));
  row.append(where, html("td", "id"), html("td"), html("td"));
  return row;
}

function updateRow(row: HTMLTableRowElement, node: RingNode, isSelf: boolean, certificate: string): void {
  row.className = `${platformClass(node.label)} ${isSelf ? "self" : ""}`;
  const [where, id, role, serves] = row.cells;
  const name = where?.lastElementChild;
  if (!name || !id || !role || !serves) return;
  name.textContent = isSelf ? "this page" : node.label || "unknown";
  id.textContent = shortId(node.id);
  id.title = node.id;
  const relays = node.relays.length === 1 ? "1 relay" : `${node.relays.length} relays`;
  role.textContent = (node.role === "leaf" ? `leaf, ${relays}` : "member") + certificate;
  serves.textContent = node.services.join(", ") || "\u2013";
}
