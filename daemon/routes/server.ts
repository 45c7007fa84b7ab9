import { apiVersion } from '../../src/api/server.ts';
import type { App } from '../../src/app.ts';
import { toPage } from '../../src/base/page.ts';
import { version } from '../../src/base/root.ts';
import type { Handlers } from '../bind.ts';

/** Lists that are not rows are paged by their place. */
const numbered = <T>(items: T[], after: number | null, limit: number) =>
  items.map((item, index) => ({ key: index + 1, item })).slice(after ?? 0, (after ?? 0) + limit + 1);

export const serverRoutes = ({
  access,
  credits,
  registry,
  models,
}: App): Pick<Handlers, 'getMe' | 'listModels' | 'listHarnesses'> => ({
  getMe: (_input, { principal }) => ({
    ...access.describe(principal),
    credits: credits.get(principal.organization_id),
    server: { version, api_version: apiVersion },
  }),

  async listHarnesses(_input, { paging }) {
    const page = paging();
    return toPage(numbered(await registry.list(), page.after, page.limit), page, ({ item }) => item);
  },

  async listModels(_input, { paging }) {
    const page = paging();
    return toPage(numbered(await models(), page.after, page.limit), page, ({ item }) => item);
  },
});
