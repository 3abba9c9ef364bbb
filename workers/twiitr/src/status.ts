/** What a node answers at `/status`, as far as it is needed here. */
export type NodeStatus = {
  id: string;
  joined: boolean;
  bootId: string;
  predecessor: { id: string } | null;
  successors: readonly { id: string }[];
  services: readonly { name: string }[];
};
