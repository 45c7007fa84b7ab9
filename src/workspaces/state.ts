import type { Workspace } from '../api/workspaces.ts';
import type { Machine } from '../base/machine.ts';

export const workspaceStates: Machine<Workspace['status']> = {
  provisioning: ['ready', 'failed', 'deleting'],
  ready: ['restoring', 'deleting', 'failed'],
  restoring: ['ready', 'failed'],
  deleting: ['deleted', 'provisioning'],
  failed: ['deleting'],
  deleted: [],
};
