-- The health of a StorageMigration (restow.dev) for Argo CD.
local health = { status = "Progressing", message = "not looked at yet" }
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return health
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Succeeded" then
    health.message = condition.reason .. ": " .. condition.message
    if condition.reason == "Suspended" then
      health.status = "Suspended"
    elseif condition.status == "True" then
      health.status = "Healthy"
    elseif condition.status == "False" then
      health.status = "Degraded"
    end
  end
end
return health
