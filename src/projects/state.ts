import type { Project } from '../api/projects.ts';
import type { Machine } from '../base/machine.ts';

export const projectStates: Machine<Project['status']> = {
  active: ['archiving'],
  archiving: ['archived', 'active'],
  archived: ['active'],
};
